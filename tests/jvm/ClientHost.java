import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Runs consumers and producers of the Java client side by side in one JVM, each in a thread of its own.
 *
 * A line on standard input is a command, its words divided by tabs: a number, a verb, the name of a client, arguments.
 * It is answered by "answer NUMBER ok|failed TEXT" once it is done. A record that a consumer gets is told at once:
 * "seen NAME PARTITION OFFSET MICROSECONDS VALUE", with the time at which poll returned it.
 */
public class ClientHost {
    private static final Map<String, Client> CLIENTS = new HashMap<>();

    /** A client and the thread that alone touches it. */
    private abstract static class Client extends Thread {
        final BlockingQueue<Runnable> tasks = new LinkedBlockingQueue<>();
        /** Cleared from outside, so that a member that waits for its group gives up; closing itself comes in its turn. */
        volatile boolean isWanted = true;
        boolean isClosed;

        Client(String name) {
            super(name);
            setDaemon(true);
        }

        abstract String does(String[] words) throws Exception;
    }

    private static class Consumer extends Client {
        private final KafkaConsumer<String, String> consumer;
        private boolean isPolling;

        Consumer(String name, Properties settings) {
            super(name);
            consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        }

        @Override
        public void run() {
            while (!isClosed) {
                Runnable task;
                try {
                    task = isPolling ? tasks.poll() : tasks.poll(10, TimeUnit.MILLISECONDS);
                } catch (InterruptedException unwanted) {
                    return;
                }
                if (task != null) {
                    task.run();
                } else if (isPolling) {
                    poll(100);
                }
            }
        }

        private void poll(long waitMs) {
            Iterable<ConsumerRecord<String, String>> records = consumer.poll(Duration.ofMillis(waitMs));
            long now = micros();
            for (ConsumerRecord<String, String> record : records) {
                say("seen", getName(), record.partition(), record.offset(), now, record.value());
            }
        }

        @Override
        String does(String[] words) throws Exception {
            switch (words[1]) {
                case "start": return start(words[3], words[4]);
                case "state": return state();
                case "find": return find(words[3], Integer.parseInt(words[4]), Long.parseLong(words[5]));
                default: throw new IllegalArgumentException(words[1]);
            }
        }

        /** Begins to read: as a member of its group, or at the BEGINNING, the END or the first record due at a time. */
        private String start(String topic, String where) {
            long began = micros();
            isPolling = true;
            if (where.equals("GROUP")) {
                consumer.subscribe(List.of(topic));
                while (consumer.assignment().isEmpty() && isWanted) {
                    poll(50);
                }
            } else {
                List<TopicPartition> all = consumer.partitionsFor(topic).stream()
                    .map(one -> new TopicPartition(topic, one.partition())).collect(Collectors.toList());
                consumer.assign(all);
                if (where.equals("BEGINNING")) {
                    consumer.seekToBeginning(all);
                } else if (where.equals("END")) {
                    consumer.seekToEnd(all);
                } else {
                    long time = Long.parseLong(where);
                    Map<TopicPartition, Long> asked = all.stream().collect(Collectors.toMap(one -> one, one -> time));
                    for (Map.Entry<TopicPartition, OffsetAndTimestamp> found : consumer.offsetsForTimes(asked).entrySet()) {
                        if (found.getValue() == null) {
                            consumer.seekToEnd(Set.of(found.getKey()));
                        } else {
                            consumer.seek(found.getKey(), found.getValue().offset());
                        }
                    }
                }
            }
            String positions = consumer.assignment().stream()
                .map(one -> one.partition() + "=" + consumer.position(one)).collect(Collectors.joining(","));
            return began + " " + micros() + " " + positions;
        }

        /** Tells of each partition the position, the end as the broker gives it, and the lag as the client sees it. */
        private String state() {
            List<String> shown = new ArrayList<>();
            for (TopicPartition one : consumer.assignment()) {
                // Before the end is asked for, which the client takes for the high watermark from then on.
                long lag = consumer.currentLag(one).orElse(-1);
                long end = consumer.endOffsets(Set.of(one)).get(one);
                shown.add(one.partition() + "=" + consumer.position(one) + "/" + end + "/" + lag);
            }
            return String.join(",", shown);
        }

        private String find(String topic, int partition, long time) {
            TopicPartition one = new TopicPartition(topic, partition);
            return Long.toString(consumer.offsetsForTimes(Map.of(one, time)).get(one).offset());
        }
    }

    private static class Producer extends Client {
        private final KafkaProducer<String, String> producer;

        Producer(String name, Properties settings) {
            super(name);
            producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        }

        @Override
        public void run() {
            try {
                while (!isClosed) {
                    tasks.take().run();
                }
            } catch (InterruptedException unwanted) {
                producer.close(Duration.ZERO);
            }
        }

        @Override
        String does(String[] words) throws Exception {
            switch (words[1]) {
                case "init": producer.initTransactions(); return "";
                case "begin": producer.beginTransaction(); return "";
                case "commit": producer.commitTransaction(); return "";
                case "abort": producer.abortTransaction(); return "";
                case "send": return send(words[3], Integer.parseInt(words[4]), Long.parseLong(words[5]), words[6]);
                case "sendAll": return sendAll(words[3], Integer.parseInt(words[4]), words[5].split(","));
                case "retries": return Long.toString(retries());
                default: throw new IllegalArgumentException(words[1]);
            }
        }

        private String send(String topic, int partition, long time, String value) throws Exception {
            return Long.toString(producer.send(new ProducerRecord<>(topic, partition, time, null, value)).get().offset());
        }

        /** Sends one record after the other without waiting for any, then waits for all. */
        private String sendAll(String topic, int partition, String[] times) throws Exception {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (String time : times) {
                sent.add(producer.send(new ProducerRecord<>(topic, partition, Long.parseLong(time), null, time)));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
            return "";
        }

        private long retries() {
            return producer.metrics().values().stream()
                .filter(one -> one.metricName().name().equals("record-retry-total"))
                .filter(one -> one.metricName().group().equals("producer-metrics"))
                .map(Metric::metricValue).mapToLong(value -> ((Double) value).longValue()).sum();
        }
    }

    public static void main(String[] unused) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split("\t", -1);
            try {
                take(words);
            } catch (Exception failure) {
                fail(words[0], failure);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void take(String[] words) {
        String name = words[2];
        switch (words[1]) {
            case "consumer":
            case "producer":
                Properties settings = settings(words);
                Client client = words[1].equals("consumer") ? new Consumer(name, settings) : new Producer(name, settings);
                CLIENTS.put(name, client);
                client.start();
                say("answer", words[0], "ok", "");
                break;
            case "close":
                Client closed = CLIENTS.remove(name);
                closed.isWanted = false;
                closed.tasks.add(() -> run(words[0], () -> close(closed)));
                break;
            default:
                Client asked = CLIENTS.get(name);
                asked.tasks.add(() -> run(words[0], () -> asked.does(words)));
        }
    }

    private static String close(Client client) {
        client.isClosed = true;
        if (client instanceof Consumer) {
            ((Consumer) client).consumer.close();
        } else {
            ((Producer) client).producer.close();
        }
        return "";
    }

    private static void run(String number, Callable<String> task) {
        try {
            say("answer", number, "ok", task.call());
        } catch (ExecutionException failure) {
            fail(number, failure.getCause());
        } catch (Exception failure) {
            fail(number, failure);
        }
    }

    private static void fail(String number, Throwable failure) {
        say("answer", number, "failed", failure.getClass().getSimpleName() + ": " + failure.getMessage());
    }

    private static Properties settings(String[] words) {
        Properties settings = new Properties();
        Arrays.stream(words).skip(3).map(word -> word.split("=", 2)).forEach(pair -> settings.put(pair[0], pair[1]));
        return settings;
    }

    private static long micros() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000;
    }

    private static synchronized void say(Object... words) {
        System.out.println(Arrays.stream(words).map(word -> String.valueOf(word).replaceAll("[\t\r\n]", " "))
            .collect(Collectors.joining("\t")));
    }
}
