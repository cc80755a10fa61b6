// kafkajs as a transactional producer, for tests/clients/test_transactional_clients.py:
// node transactional_writer.js bootstrap transactional-id topic (commit|abort)=value,value ...

const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, transactionalId, topic, ...transactions] = process.argv.slice(2)

async function main() {
  const kafka = new Kafka({ clientId: 'kafkajs', brokers: [bootstrap], logLevel: logLevel.ERROR })
  // kafkajs promises exactly-once with one request in flight only.
  const producer = kafka.producer({ transactionalId, maxInFlightRequests: 1, idempotent: true })
  await producer.connect()
  for (const each of transactions) {
    const [end, values] = each.split(/=(.*)/s, 2)
    const transaction = await producer.transaction()
    for (const value of values.split(',')) {
      await transaction.send({ topic, messages: [{ value }] })
    }
    await (end === 'commit' ? transaction.commit() : transaction.abort())
  }
  await producer.disconnect()
}

main().catch(error => {
  process.stderr.write(`${error.stack}\n`)
  process.exit(1)
})
