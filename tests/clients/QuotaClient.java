// A producer or a consumer of Apache Kafka's own library for tests/clients/test_quota_clients.py. Run from this source:
// java -cp 'jars/*' QuotaClient.java produce|consume <bootstrap servers> <topic> <client id> <pace> <warm-up> <seconds>
// After so many seconds of warming up, at so many bytes a second, it goes as fast as it may. Prints, four times a second, the milliseconds since its first record, the bytes of values so far, and the largest
// throttle time its metrics know of (milliseconds).

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.TopicPartition;

public class QuotaClient {
    private static final int VALUE_BYTES = 1000;
    private static final int REPORT_MS = 250;

    private static final long SLACK_NS = 50_000_000;

    private final long gapNs;
    private final long warmUpMs;
    private final long endMs;
    private final AtomicLong bytes = new AtomicLong();
    private volatile long startMs = -1;
    private long nextNs = System.nanoTime();
    private long reportedMs;
    private double throttleMs;

    private QuotaClient(long bytesASecond, int warmUpSeconds, int seconds) {
        warmUpMs = warmUpSeconds * 1000L;
        gapNs = VALUE_BYTES * 1_000_000_000L / bytesASecond;
        endMs = now() + seconds * 1000L;
    }

    public static void main(String[] arguments) {
        QuotaClient client = new QuotaClient(
            Long.parseLong(arguments[4]), Integer.parseInt(arguments[5]), Integer.parseInt(arguments[6]));
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[1]);
        settings.put("client.id", arguments[3]);
        settings.put("metrics.sample.window.ms", "5000");
        if (arguments[0].equals("produce")) {
            client.produce(settings, arguments[2]);
        } else {
            client.consume(settings, arguments[2]);
        }
    }

    private void produce(Properties settings, String topic) {
        settings.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        settings.put("buffer.memory", "1000000");
        byte[] value = new byte[VALUE_BYTES];
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings);
        Thread reporter = new Thread(() -> {
            while (true) {
                report(producer.metrics().values(), "produce-throttle-time-max");
                sleep(REPORT_MS);
            }
        });
        reporter.setDaemon(true);
        reporter.start();
        while (now() < endMs) {
            pace();
            producer.send(new ProducerRecord<>(topic, 0, null, value), (metadata, error) -> {
                if (error == null) {
                    count(VALUE_BYTES);
                }
            });
        }
        System.exit(0); // what still waits would wait for its quota
    }

    private void consume(Properties settings, String topic) {
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        settings.put("enable.auto.commit", "false");
        settings.put("max.partition.fetch.bytes", "100000");
        settings.put("max.poll.records", "50");
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
        TopicPartition partition = new TopicPartition(topic, 0);
        consumer.assign(List.of(partition));
        consumer.seekToBeginning(List.of(partition));
        while (now() < endMs) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                pace();
                count(record.value().length);
            }
            if (now() - reportedMs >= REPORT_MS) {
                report(consumer.metrics().values(), "fetch-throttle-time-max");
            }
        }
        System.exit(0);
    }

    private void count(int more) {
        if (startMs < 0) {
            startMs = now();
        }
        bytes.addAndGet(more);
    }

    private void report(Collection<? extends Metric> metrics, String throttleTime) {
        reportedMs = now();
        for (Metric metric : metrics) {
            if (metric.metricName().name().equals(throttleTime) && metric.metricValue() instanceof Double) {
                double value = (Double) metric.metricValue();
                throttleMs = Math.max(throttleMs, Double.isNaN(value) ? 0 : value);
            }
        }
        if (startMs >= 0) {
            System.out.println((now() - startMs) + " " + bytes.get() + " " + (long) throttleMs);
        }
    }

    // While warming up: the time for the next value. What was missed meanwhile is not made up for.
    private void pace() {
        if (startMs >= 0 && now() - startMs > warmUpMs) {
            return;
        }
        long nowNs = System.nanoTime();
        nextNs = Math.max(nextNs + gapNs, nowNs - SLACK_NS);
        if (nextNs - nowNs > 2_000_000) {
            sleep((nextNs - nowNs) / 1_000_000);
        }
    }

    private static void sleep(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static long now() {
        return System.nanoTime() / 1_000_000;
    }
}
