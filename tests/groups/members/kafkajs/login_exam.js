// kafkajs through one login after another, for tests/security/matrix (see exam_program.py there): each line on the
// standard input is a login, each line on the standard output is what was read with it, or why it failed.

const fs = require('fs')
const readline = require('readline')
const { Kafka, logLevel } = require('kafkajs')

function sasl({ mechanism, user, password }) {
  if (mechanism === 'OAUTHBEARER') {
    return { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: password }) }
  }
  return { mechanism: mechanism.toLowerCase(), username: user, password }
}

async function write(kafka, { topic, in_transaction: inTransaction, plain_values: plainValues }) {
  // kafkajs promises exactly-once with one request in flight only.
  const transactional = kafka.producer({ transactionalId: topic, maxInFlightRequests: 1, idempotent: true })
  await transactional.connect()
  const transaction = await transactional.transaction()
  await transaction.send({ topic, messages: inTransaction.split(',').map(value => ({ value })) })
  await transaction.commit()
  await transactional.disconnect()
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, acks: -1, messages: plainValues.split(',').map(value => ({ value })) })
  await producer.disconnect()
}

async function read(kafka, topic, count) {
  const consumer = kafka.consumer({ groupId: topic, maxWaitTimeInMs: 100 })
  const found = []
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    const eachMessage = async ({ partition, message }) => {
      found.push(message.value.toString())
      if (found.length === count) {
        const offset = String(Number(message.offset) + 1)
        await consumer.commitOffsets([{ topic, partition, offset }]).then(resolve, reject)
      }
    }
    consumer.run({ autoCommit: false, eachMessage }).catch(reject)
  })
  await consumer.disconnect()
  return found
}

async function sit(login) {
  const kafka = new Kafka({
    clientId: 'kafkajs',
    brokers: [login.bootstrap],
    logLevel: logLevel.WARN,
    logCreator: () => ({ log }) => process.stderr.write(JSON.stringify(log) + '\n'),
    ...(login.protocol.endsWith('SSL') ? { ssl: { ca: [fs.readFileSync(login.trust_pem)] } } : {}),
    ...(login.mechanism ? { sasl: sasl(login) } : {}),
  })
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic: login.topic, numPartitions: 1, replicationFactor: 1 }] })
  await admin.disconnect()
  await write(kafka, login)
  return read(kafka, login.topic, (login.in_transaction + ',' + login.plain_values).split(',').length)
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const login = Object.fromEntries(line.split('\t').map(each => each.split(/=(.*)/s, 2)))
    const answer = await sit(login).then(
      found => `read=${found.join(',')}`,
      error => `failed=${JSON.stringify(String(error.stack))}`
    )
    process.stdout.write(answer + '\n')
  }
  process.exit(0)
}

main()
