import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Decodes and encodes again with Apache Kafka's own generated messages.
 * Each line of input is `api_key version request|response hex`; each line of output is hex, `unknown`, or `error text`.
 */
public class KafkaOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ", -1);
            String answer;
            try {
                answer = encodeAgain(Short.parseShort(words[0]), Short.parseShort(words[1]), words[2], words[3]);
            } catch (Exception error) {
                answer = "error " + error.toString().replace('\n', ' ');
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    private static String encodeAgain(short apiKey, short version, String kind, String hex) {
        ApiMessageType api = null;
        for (ApiMessageType candidate : ApiMessageType.values()) {
            if (candidate.apiKey() == apiKey) {
                api = candidate;
            }
        }
        if (api == null || version < api.lowestSupportedVersion() || version > api.highestSupportedVersion(true)) {
            return "unknown";
        }
        ApiMessage message = kind.equals("request") ? api.newRequest() : api.newResponse();
        ByteBuffer body = ByteBuffer.wrap(HexFormat.of().parseHex(hex));
        message.read(new ByteBufferAccessor(body), version);
        if (body.hasRemaining()) {
            return "error " + body.remaining() + " bytes left";
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer out = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(out), cache, version);
        return HexFormat.of().formatHex(out.array(), 0, out.position());
    }
}
