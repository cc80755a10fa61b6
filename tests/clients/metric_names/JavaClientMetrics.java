// Prints the names of all metrics of Apache Kafka's clients, for tests/clients/metric_names. Run from this source:
// java -cp 'jars/*' JavaClientMetrics.java <bootstrap servers> <topic of one partition>
// A transactional producer sends a record and commits it, a consumer of a group reads it and commits its offset, an
// admin client describes the cluster. One line a metric, sorted: the client, the group, the name, the keys of its tags.

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class JavaClientMetrics {
    private static final Set<String> LINES = new TreeSet<>();

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0];
        String topic = arguments[1];
        produce(settings(servers), topic);
        consume(settings(servers), topic);
        Properties settings = settings(servers);
        try (Admin admin = Admin.create(settings)) {
            admin.describeCluster().nodes().get();
            print("admin", admin.metrics().keySet());
        }
        LINES.forEach(System.out::println);
    }

    private static Properties settings(String servers) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        return settings;
    }

    private static void produce(Properties settings, String topic) throws Exception {
        settings.put("transactional.id", "metric-names");
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, new byte[10])).get();
            producer.commitTransaction();
            print("producer", producer.metrics().keySet());
        }
    }

    private static void consume(Properties settings, String topic) {
        settings.put("group.id", "metric-names");
        settings.put("auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            ConsumerRecords<byte[], byte[]> records = ConsumerRecords.empty();
            while (records.isEmpty()) {
                records = consumer.poll(Duration.ofMillis(100));
            }
            consumer.commitSync();
            print("consumer", consumer.metrics().keySet());
        }
    }

    private static void print(String client, Iterable<MetricName> names) {
        for (MetricName name : names) {
            LINES.add(client + " " + name.group() + " " + name.name() + " " + String.join(",", new TreeSet<>(name.tags().keySet())));
        }
    }
}
