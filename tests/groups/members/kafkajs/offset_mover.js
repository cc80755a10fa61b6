// kafkajs commits offsets in transactions, for tests/clients/test_transactional_clients.py:
// node offset_mover.js bootstrap name source target (commit|abort)=offset ...
// `name` is the transactional id and the group; each transaction writes its offset to `target`, too.

const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, name, source, target, ...transactions] = process.argv.slice(2)

async function main() {
  const kafka = new Kafka({ clientId: 'kafkajs', brokers: [bootstrap], logLevel: logLevel.ERROR })
  const producer = kafka.producer({ transactionalId: name, maxInFlightRequests: 1, idempotent: true })
  await producer.connect()
  for (const each of transactions) {
    const [end, offset] = each.split('=')
    const transaction = await producer.transaction()
    await transaction.send({ topic: target, messages: [{ value: offset }] })
    const topics = [{ topic: source, partitions: [{ partition: 0, offset }] }]
    await transaction.sendOffsets({ consumerGroupId: name, topics })
    await (end === 'commit' ? transaction.commit() : transaction.abort())
  }
  await producer.disconnect()
}

main().catch(error => {
  process.stderr.write(`${error.stack}\n`)
  process.exit(1)
})
