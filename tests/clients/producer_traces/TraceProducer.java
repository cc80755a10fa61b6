import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Plays sessions with Apache Kafka's producer. Input: `set name value` lines, `begin`, steps, `end`; and so on.
 * Output: a line with the outcomes of a session's records, `offset` or the error's name, as soon as it is closed.
 */
public class TraceProducer {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Properties settings = new Properties();
        KafkaProducer<byte[], byte[]> producer = null;
        List<Future<RecordMetadata>> futures = new ArrayList<>();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "set" -> settings.put(words[1], words[2]);
                case "begin" -> producer =
                    new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
                case "send" -> futures.add(producer.send(new ProducerRecord<>(
                    "t",
                    words[1].equals("-") ? null : Integer.valueOf(words[1]),
                    words[2].equals("-") ? null : words[2].getBytes(StandardCharsets.UTF_8),
                    value(words[3]))));
                case "flush" -> producer.flush();
                case "end" -> {
                    producer.close();
                    List<String> outcomes = new ArrayList<>();
                    for (Future<RecordMetadata> future : futures) {
                        outcomes.add(outcome(future));
                    }
                    System.out.println(String.join(" ", outcomes));
                    System.out.flush();
                    settings.clear();
                    futures.clear();
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    private static byte[] value(String word) {
        String[] parts = word.split("\\*");
        if (parts.length == 1) {
            return word.getBytes(StandardCharsets.UTF_8);
        }
        StringBuilder filled = new StringBuilder(parts[0]);
        while (filled.length() < Integer.parseInt(parts[1])) {
            filled.append('.');
        }
        return filled.toString().getBytes(StandardCharsets.UTF_8);
    }

    private static String outcome(Future<RecordMetadata> future) throws InterruptedException {
        try {
            return Long.toString(future.get().offset());
        } catch (ExecutionException error) {
            return Errors.forException(error.getCause()).name();
        }
    }
}
