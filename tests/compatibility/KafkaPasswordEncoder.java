// Kafka's own encoder of stored passwords: `encode SECRET CIPHER KEY_LENGTH PASSWORD`, or `decode SECRET CIPHER
// KEY_LENGTH ENCODED`; prints the result. Run as a single source file with Kafka's jars on the class path.

import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.security.PasswordEncoder;

public class KafkaPasswordEncoder {
    public static void main(String[] arguments) throws Exception {
        Password secret = new Password(arguments[1]);
        int keyLength = Integer.parseInt(arguments[3]);
        PasswordEncoder encoder = PasswordEncoder.encrypting(secret, null, arguments[2], keyLength, 4096);
        if (arguments[0].equals("encode")) {
            System.out.println(encoder.encode(new Password(arguments[4])));
        } else {
            System.out.println(encoder.decode(arguments[4]).value());
        }
    }
}
