// kafkajs as a member of a group (see ../talk.py): node member.js name=value ...

const readline = require('readline')
const { AssignerProtocol, Kafka, logLevel } = require('kafkajs')

const POLL_MS = 100
const settings = Object.fromEntries(process.argv.slice(2).map(each => each.split(/=(.*)/s, 2)))
const topics = settings.topics.split(',')

function tell(event, fields) {
  process.stdout.write(JSON.stringify({ event, ms: Date.now(), ...fields }) + '\n')
}

// kafkajs's one assignor goes by a name that no other library knows, so a mixed group needs one of the common ones
// written for it; this is how its documentation has users do that.
function assigner(name, share) {
  return ({ cluster }) => ({
    name,
    version: 0,
    async assign({ members, topics }) {
      const sorted = members.map(({ memberId }) => memberId).sort()
      const assignments = new Map(sorted.map(memberId => [memberId, {}]))
      const partitions = topics.map(topic => [
        topic,
        cluster.findTopicPartitionMetadata(topic).map(({ partitionId }) => partitionId).sort((a, b) => a - b),
      ])
      share(sorted, partitions, (memberId, topic, partition) => {
        const assignment = assignments.get(memberId)
        assignment[topic] = [...(assignment[topic] || []), partition]
      })
      return [...assignments].map(([memberId, assignment]) => ({
        memberId,
        memberAssignment: AssignerProtocol.MemberAssignment.encode({ version: 0, assignment }),
      }))
    },
    protocol({ topics }) {
      return { name, metadata: AssignerProtocol.MemberMetadata.encode({ version: 0, topics }) }
    },
  })
}

function shareRanges(members, topics, give) {
  for (const [topic, partitions] of topics) {
    const [each, more] = [Math.floor(partitions.length / members.length), partitions.length % members.length]
    let next = 0
    members.forEach((memberId, index) => {
      const count = each + (index < more ? 1 : 0)
      partitions.slice(next, next + count).forEach(partition => give(memberId, topic, partition))
      next += count
    })
  }
}

function shareInTurn(members, topics, give) {
  let turn = 0
  for (const [topic, partitions] of topics) {
    partitions.forEach(partition => give(members[turn++ % members.length], topic, partition))
  }
}

const assigners = { range: assigner('range', shareRanges), roundrobin: assigner('roundrobin', shareInTurn) }

const kafka = new Kafka({
  clientId: 'kafkajs',
  brokers: [settings.bootstrap],
  logLevel: logLevel.WARN,
  logCreator: () => ({ log }) => process.stderr.write(JSON.stringify(log) + '\n'),
  retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 8 },
})
const consumer = kafka.consumer({
  groupId: settings.group,
  ...(settings.assignor ? { partitionAssigners: [assigners[settings.assignor]] } : {}),
  sessionTimeout: Number(settings.session_ms),
  heartbeatInterval: Math.min(500, Math.floor(Number(settings.session_ms) / 3)),
  rebalanceTimeout: 60000,
  maxWaitTimeInMs: POLL_MS,
  maxBytesPerPartition: 16384,
  metadataMaxAge: 3000,
})
const producer = kafka.producer()

let joined = 0 // how often it has joined, or has heard that it must
let held = []
let positions = new Map() // 'topic/partition' -> [topic, partition, the offset behind what was worked on]

function forget() {
  joined++
  positions = new Map()
  const gone = held
  held = []
  return gone
}

async function commit() {
  const offsets = [...positions.values()]
  positions = new Map()
  try {
    if (offsets.length > 0) {
      const commits = offsets.map(([topic, partition, offset]) => ({ topic, partition, offset: String(offset) }))
      await consumer.commitOffsets(commits)
    }
  } catch (refused) {
    tell('commit_refused', { reason: `${refused.type || refused.name}: ${refused.message}` })
    throw refused // kafkajs joins again when it hears of it
  }
}

// While kafkajs closes, commitOffsets does nothing and says so to nobody; its event comes when the broker has answered.
function committed({ payload }) {
  const offsets = payload.topics.flatMap(({ topic, partitions }) =>
    partitions.map(({ partition, offset }) => [topic, partition, Number(offset)])
  )
  tell('committed', { offsets })
}

async function workOn({ batch, isRunning, isStale, heartbeat, resolveOffset }) {
  const messages = batch.messages
  if (messages.length === 0 || !isRunning() || isStale()) return
  const before = joined
  if (settings.sink) {
    await producer.send({ topic: settings.sink, acks: -1, messages: messages.map(({ value }) => ({ value })) })
  }
  await new Promise(resolve => setTimeout(resolve, Number(settings.pause_ms)))
  const [first, last] = [Number(messages[0].offset), Number(messages[messages.length - 1].offset)]
  tell('records', { ranges: [[batch.topic, batch.partition, first, last]] })
  if (joined !== before) return // it would be committed as of the new generation, in which others may hold the partition
  positions.set(`${batch.topic}/${batch.partition}`, [batch.topic, batch.partition, last + 1])
  if (settings.commit === 'batch') await commit()
  resolveOffset(String(last))
  await heartbeat()
}

async function close() {
  await consumer.disconnect()
  await producer.disconnect()
  tell('closed', {})
  process.exit(0)
}

async function main() {
  const lines = readline.createInterface({ input: process.stdin })
  lines.on('line', line => (line === 'close' ? close() : commit().catch(() => {})))
  lines.on('close', close)
  consumer.on(consumer.events.REBALANCING, () => tell('revoked', { partitions: forget(), lost: false }))
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    forget()
    const assignment = Object.entries(payload.memberAssignment)
    held = assignment.flatMap(([topic, partitions]) => partitions.map(partition => [topic, partition]))
    tell('assigned', { partitions: held, whole: true })
  })
  consumer.on(consumer.events.COMMIT_OFFSETS, committed)
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    process.stderr.write(`crash: ${payload.error.stack}\n`)
    if (!payload.restart) {
      tell('failed', { reason: String(payload.error) })
      process.exit(1)
    }
  })
  await producer.connect()
  await consumer.connect()
  await consumer.subscribe({ topics, fromBeginning: true })
  await consumer.run({ autoCommit: settings.commit === 'auto', eachBatchAutoResolve: false, eachBatch: workOn })
}

main().catch(failure => {
  tell('failed', { reason: String(failure) })
  process.exit(1)
})
