import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main classes of Apache Kafka's tools one after another in this JVM, each with its own output.
 * A request on stdin: the number of words, then the class's name and its arguments, as DataInputStream reads them.
 * The answer on stdout: exit status, then length and bytes of what went to its stdout, and to its stderr.
 */
public class ToolRunner {
    /** What the tools know as System.out or System.err: forwards to the run that is on. */
    private static final class Forwarding extends OutputStream {
        private volatile ByteArrayOutputStream target = new ByteArrayOutputStream();

        @Override
        public void write(int one) {
            target.write(one);
        }

        @Override
        public void write(byte[] bytes, int from, int length) {
            target.write(bytes, from, length);
        }

        byte[] take() {
            byte[] written = target.toByteArray();
            target = new ByteArrayOutputStream();
            return written;
        }
    }

    private static final Forwarding OUT = new Forwarding();
    private static final Forwarding ERR = new Forwarding();
    private static volatile CompletableFuture<Integer> ended = new CompletableFuture<>();

    public static void main(String[] arguments) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        System.setOut(new PrintStream(OUT, true));
        System.setErr(new PrintStream(ERR, true));
        Exit.setExitProcedure(ToolRunner::exit);
        Exit.setHaltProcedure(ToolRunner::exit);
        while (true) {
            String[] words;
            try {
                words = new String[requests.readInt()];
            } catch (EOFException end) {
                Runtime.getRuntime().halt(0);
                return;
            }
            for (int index = 0; index < words.length; index++) {
                words[index] = requests.readUTF();
            }
            int status = run(words);
            answers.writeInt(status);
            for (Forwarding each : new Forwarding[] {OUT, ERR}) {
                byte[] written = each.take();
                answers.writeInt(written.length);
                answers.write(written);
            }
            answers.flush();
        }
    }

    /** As System.exit: does not return. The thread is a daemon that nobody wakes, in place of one that is gone. */
    private static void exit(int status, String message) {
        ended.complete(status);
        while (true) {
            LockSupport.park();
        }
    }

    private static int run(String[] words) throws Exception {
        ended = new CompletableFuture<>();
        CompletableFuture<Integer> end = ended;
        String[] arguments = java.util.Arrays.copyOfRange(words, 1, words.length);
        Thread tool = new Thread(() -> {
            try {
                Method main = Class.forName(words[0]).getMethod("main", String[].class);
                main.invoke(null, (Object) arguments);
                end.complete(0);
            } catch (InvocationTargetException failure) {
                failure.getCause().printStackTrace();
                end.complete(1);
            } catch (Throwable failure) {
                failure.printStackTrace();
                end.complete(1);
            }
        }, "main");
        tool.setDaemon(true);
        tool.start();
        return end.get();
    }
}
