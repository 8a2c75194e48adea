import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs one tool after the other in one JVM, since a start of the JVM costs more than most tools do.
 *
 * A line on standard input is a command: main class, standard input, arguments, each in Base64, separated by blanks.
 * The line that answers it has the exit code and, in Base64, what the tool wrote to standard output and error.
 */
public class ToolHost {
    private static final PrintStream ANSWERS = System.out;

    /** What ends a tool that asks for the end of its process. */
    private static class Ended extends Error {
        Ended() {
            super(null, null, false, false);
        }
    }

    /** Runs a main class several times side by side: COUNT, the class, its arguments, in which # is the run's number. */
    public static class Together {
        public static void main(String[] arguments) throws Exception {
            List<Thread> threads = new ArrayList<>();
            AtomicInteger failed = new AtomicInteger();
            for (int number = 0; number < Integer.parseInt(arguments[0]); number++) {
                String own = Integer.toString(number);
                String[] rest = Arrays.stream(arguments).skip(2).map(text -> text.replace("#", own)).toArray(String[]::new);
                threads.add(new Thread(() -> failed.addAndGet(invoked(arguments[1], rest))));
            }
            threads.forEach(Thread::start);
            for (Thread thread : threads) {
                thread.join();
            }
            if (failed.get() > 0) {
                Exit.exit(1);
            }
        }
    }

    public static void main(String[] unused) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = Arrays.stream(line.split(" ")).map(ToolHost::decoded).toArray(String[]::new);
            answer(words[0], words[1], Arrays.copyOfRange(words, 2, words.length));
        }
        // Not through Exit: tools leave threads and hooks behind that nobody waits for.
        Runtime.getRuntime().halt(0);
    }

    private static void answer(String mainClass, String input, String[] arguments) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        int status = run(mainClass, arguments);
        ANSWERS.println(status + " " + encoded(out.toByteArray()) + " " + encoded(err.toByteArray()));
        ANSWERS.flush();
    }

    /** Runs a tool to its end, with what it wants done at the end of the process. */
    private static int run(String mainClass, String[] arguments) {
        // A tool may catch its own end, report it and ask again with another status: only the first one counts.
        int[] first = {-1};
        Exit.Procedure end = (status, message) -> {
            if (first[0] < 0) {
                if (message != null) {
                    System.err.println(message);
                }
                first[0] = status;
                System.setOut(new PrintStream(OutputStream.nullOutputStream()));
                System.setErr(new PrintStream(OutputStream.nullOutputStream()));
            }
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        List<Runnable> hooks = new ArrayList<>();
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        int failed = invoked(mainClass, arguments);
        hooks.forEach(Runnable::run);
        return Math.max(first[0], failed);
    }

    /** Runs a main class; 1 if it failed in a way of which it has not spoken. */
    private static int invoked(String mainClass, String[] arguments) {
        try {
            Class.forName(mainClass).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException failure) {
            if (!(failure.getCause() instanceof Ended)) {
                failure.getCause().printStackTrace();
                return 1;
            }
        } catch (ReflectiveOperationException failure) {
            failure.printStackTrace();
            return 1;
        }
        return 0;
    }

    private static String decoded(String word) {
        // An empty text would be no word at all, so each begins with a sign of its own.
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8).substring(1);
    }

    private static String encoded(byte[] text) {
        return "-" + Base64.getEncoder().encodeToString(text);
    }
}
