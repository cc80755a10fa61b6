// Apache Kafka's own consumer as a member of a group (see ../talk.py): java GroupMember name=value ...

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

public class GroupMember implements ConsumerRebalanceListener {
    private static final int POLL_MS = 100;
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final Map<String, String> settings;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final KafkaProducer<byte[], byte[]> producer;
    private final LinkedBlockingQueue<String> commands = new LinkedBlockingQueue<>();
    private Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();

    private GroupMember(Map<String, String> settings) {
        this.settings = settings;
        consumer = new KafkaConsumer<>(consumerSettings());
        producer = settings.get("sink").isEmpty() ? null : new KafkaProducer<>(producerSettings());
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> settings = Arrays.stream(arguments)
            .map(argument -> argument.split("=", 2))
            .collect(Collectors.toMap(pair -> pair[0], pair -> pair[1]));
        try {
            new GroupMember(settings).run();
        } catch (KafkaException failure) {
            tell("failed", "\"reason\": " + quoted(failure.toString()));
            failure.printStackTrace();
            System.exit(1);
        }
    }

    private Properties consumerSettings() {
        int sessionMs = Integer.parseInt(settings.get("session_ms"));
        Properties properties = new Properties();
        properties.put("bootstrap.servers", settings.get("bootstrap"));
        properties.put("group.id", settings.get("group"));
        properties.put("client.id", "java");
        properties.put("enable.auto.commit", String.valueOf(settings.get("commit").equals("auto")));
        properties.put("auto.offset.reset", "earliest");
        properties.put("fetch.max.wait.ms", String.valueOf(POLL_MS));
        properties.put("max.poll.records", "200");
        properties.put("metadata.max.age.ms", "3000");
        properties.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        properties.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        properties.put("group.protocol", settings.get("protocol"));
        if (settings.get("protocol").equals("classic")) {
            properties.put("session.timeout.ms", String.valueOf(sessionMs));
            properties.put("heartbeat.interval.ms", String.valueOf(Math.min(500, sessionMs / 3)));
        }
        if (ASSIGNORS.containsKey(settings.get("assignor")) && settings.get("protocol").equals("classic")) {
            properties.put("partition.assignment.strategy", ASSIGNORS.get(settings.get("assignor")));
        }
        if (!settings.get("instance").isEmpty()) {
            properties.put("group.instance.id", settings.get("instance"));
        }
        return properties;
    }

    private Properties producerSettings() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", settings.get("bootstrap"));
        properties.put("linger.ms", "0");
        properties.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        return properties;
    }

    private void run() throws Exception {
        Thread reader = new Thread(this::readCommands, "commands");
        reader.setDaemon(true);
        reader.start();
        subscribe(settings.get("topics"));
        while (true) {
            String command = commands.poll();
            if ("close".equals(command)) {
                break;
            }
            if ("commit".equals(command)) {
                commit();
            }
            workOn(consumer.poll(Duration.ofMillis(POLL_MS)));
        }
        consumer.close();
        tell("closed", "\"told\": true");
        System.exit(0);
    }

    private void subscribe(String topics) {
        if (!topics.startsWith("^")) {
            consumer.subscribe(List.of(topics.split(",")), this);
        } else if (settings.get("protocol").equals("consumer")) {
            consumer.subscribe(new SubscriptionPattern(topics), this); // the broker matches, by RE2
        } else {
            consumer.subscribe(Pattern.compile(topics), this);
        }
    }

    private void readCommands() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                commands.add(line.strip());
            }
        } catch (java.io.IOException ended) {
            ended.printStackTrace();
        }
        commands.add("close");
    }

    private void workOn(ConsumerRecords<byte[], byte[]> records) throws Exception {
        if (records.isEmpty()) {
            return;
        }
        if (producer != null) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (ConsumerRecord<byte[], byte[]> record : records) {
                sent.add(producer.send(new ProducerRecord<>(settings.get("sink"), record.value())));
            }
            for (Future<RecordMetadata> each : sent) {
                each.get();
            }
        }
        Thread.sleep(Long.parseLong(settings.get("pause_ms")));
        List<String> ranges = new ArrayList<>();
        for (TopicPartition place : records.partitions()) {
            List<ConsumerRecord<byte[], byte[]>> some = records.records(place);
            long first = some.get(0).offset();
            long last = some.get(some.size() - 1).offset();
            ranges.add("[" + quoted(place.topic()) + ", " + place.partition() + ", " + first + ", " + last + "]");
            positions.put(place, new OffsetAndMetadata(last + 1));
        }
        tell("records", "\"ranges\": " + ranges);
        if (settings.get("commit").equals("batch")) {
            commit();
        }
    }

    private void commit() {
        Map<TopicPartition, OffsetAndMetadata> offsets = positions;
        positions = new HashMap<>();
        try {
            consumer.commitSync(offsets);
        } catch (KafkaException refused) {
            tell("commit_refused", "\"reason\": " + quoted(refused.toString()));
            return;
        }
        tell("committed", "\"offsets\": " + offsets.entrySet().stream()
            .map(entry -> "[" + quoted(entry.getKey().topic()) + ", " + entry.getKey().partition() + ", "
                + entry.getValue().offset() + "]")
            .collect(Collectors.toList()));
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
        tell("assigned", "\"partitions\": " + places(assigned));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
        gone(revoked, false);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> lost) {
        gone(lost, true);
    }

    private void gone(Collection<TopicPartition> partitions, boolean lost) {
        positions.keySet().removeAll(partitions);
        tell("revoked", "\"partitions\": " + places(partitions) + ", \"lost\": " + lost);
    }

    private static List<String> places(Collection<TopicPartition> partitions) {
        return partitions.stream()
            .map(place -> "[" + quoted(place.topic()) + ", " + place.partition() + "]")
            .collect(Collectors.toList());
    }

    private static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ") + "\"";
    }

    private static void tell(String event, String fields) {
        long ms = System.currentTimeMillis();
        System.out.println("{\"event\": " + quoted(event) + ", \"ms\": " + ms + ", " + fields + "}");
    }
}
