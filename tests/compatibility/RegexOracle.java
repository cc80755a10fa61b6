import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;

/**
 * Compiles and matches with re2j, as Apache Kafka does. A line of input is an expression in hex; the arguments are the
 * texts to match. The answer is a 0 or 1 for each text, or `error description`.
 */
public class RegexOracle {
    public static void main(String[] texts) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            StringBuilder answer = new StringBuilder();
            try {
                Pattern pattern = Pattern.compile(new String(HexFormat.of().parseHex(line), "UTF-8"));
                for (String text : texts) {
                    answer.append(pattern.matcher(text).matches() ? '1' : '0');
                }
            } catch (PatternSyntaxException error) {
                answer.append("error ").append(error.getDescription());
            }
            System.out.println(answer);
        }
    }
}
