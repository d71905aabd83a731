import java.io.BufferedReader;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;

/**
 * A small HDFS on this machine: a namenode and two datanodes. The arguments are a directory for its files and settings
 * of Hadoop (`name=value`). It prints the URL of the namenode, then answers each line of tab-separated words on standard input with a line. It ends with its
 * standard input.
 */
public class Hdfs {
  private static final Map<String, FSDataOutputStream> open = new HashMap<>();
  private static MiniDFSCluster.DataNodeProperties stopped;
  private static MiniDFSCluster cluster;
  private static Watcher watcher;

  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    System.setOut(System.err);
    HdfsConfiguration conf = new HdfsConfiguration();
    conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, args[0]);
    conf.setInt("dfs.replication", 2);
    conf.setInt("dfs.namenode.fs-limits.min-block-size", 1024);
    conf.setInt("dfs.heartbeat.interval", 1);
    // A datanode that is away is known after 12 s.
    conf.setInt("dfs.namenode.heartbeat.recheck-interval", 1000);
    conf.setLong("dfs.blocksize", 1 << 20);
    for (String setting : Arrays.copyOfRange(args, 1, args.length)) {
      String[] parts = setting.split("=", 2);
      conf.set(parts[0], parts[1]);
    }
    cluster = new MiniDFSCluster.Builder(conf).numDataNodes(2).format(true).build();
    cluster.waitActive();
    out.println(cluster.getURI());
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String answer;
      try {
        answer = "ok\t" + answer(line.split("\t"));
      } catch (Exception e) {
        e.printStackTrace();
        answer = "failed\t" + e.toString().split("\n")[0];
      }
      out.println(answer);
    }
    // No shutdown: a test has ended, and its directory is removed.
    Runtime.getRuntime().halt(0);
  }

  private static String answer(String[] words) throws Exception {
    switch (words[0]) {
      case "put": // a local file, its path in HDFS, the size of blocks
        try (FSDataOutputStream to = create(words[2], Long.parseLong(words[3]))) {
          Files.copy(Paths.get(words[1]), to);
        }
        return "";
      case "write": { // as `put`, but the file stays open
        FSDataOutputStream to = create(words[2], Long.parseLong(words[3]));
        Files.copy(Paths.get(words[1]), to);
        to.hflush();
        open.put(words[2], to);
        return "";
      }
      case "close":
        open.remove(words[1]).close();
        return "";
      case "create": // an open file without a block
        open.put(words[1], create(words[1], 1 << 20));
        return "";
      case "rename":
        files().rename(new Path(words[1]), new Path(words[2]), Options.Rename.OVERWRITE);
        return "";
      case "mode":
        files().setPermission(new Path(words[1]), new FsPermission(words[2]));
        return "";
      case "get": // a directory, a local one
        files().copyToLocalFile(false, new Path(words[1]), new Path(words[2]), true);
        return "";
      case "list": // the names in a directory, with hidden ones; `absent`
        return state(words[1], true);
      case "version": { // of a file: its modification time and its length
        FileStatus file = files().getFileStatus(new Path(words[1]));
        return Long.toHexString(file.getModificationTime()) + "-" + Long.toHexString(file.getLen());
      }
      case "make":
        files().mkdirs(new Path(words[1]));
        return "";
      case "quota": // a directory, the most bytes with all replicas
        files().setQuota(new Path(words[1]), HdfsConstants.QUOTA_DONT_SET, Long.parseLong(words[2]));
        return "";
      case "watch": // a directory, until `seen`
        watcher = new Watcher(words[1]);
        watcher.start();
        return "";
      case "seen": // the different listings, and how often a directory was listed
        watcher.done = true;
        watcher.join();
        return watcher.looks + "\t" + String.join("\t", watcher.seen);
      case "replica": { // the local file of the first replica of the first block
        LocatedBlock block = files().getClient().getLocatedBlocks(words[1], 0, 1).get(0);
        File file = cluster.getBlockFile(0, block.getBlock());
        return file.getPath();
      }
      case "replicas": { // the lengths of the replicas of each block, as the datanodes have them
        StringBuilder lengths = new StringBuilder();
        for (LocatedBlock block : files().getClient().getLocatedBlocks(words[1], 0).getLocatedBlocks()) {
          for (File file : cluster.getAllBlockFiles(block.getBlock())) {
            lengths.append(file.length()).append(' ');
          }
          lengths.append('\t');
        }
        return lengths.toString();
      }
      case "stop-datanode":
        stopped = cluster.stopDataNode(0);
        return "";
      case "start-datanode":
        cluster.restartDataNode(stopped, true);
        cluster.waitActive();
        return "";
      case "stop-namenode":
        cluster.shutdownNameNode(0);
        return "";
      case "start-namenode":
        cluster.restartNameNode(0, true);
        return "";
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }

  /** Looks at a directory all the time, as a reader does that lists it. */
  private static class Watcher extends Thread {
    private final String path;
    private final Set<String> seen = new LinkedHashSet<>();
    private volatile boolean done;
    private int looks;

    Watcher(String path) {
      this.path = path;
    }

    @Override
    public void run() {
      try {
        while (!done) {
          seen.add(state(path, false));
          looks++;
        }
      } catch (Exception e) {
        seen.add(e.toString().split("\n")[0]);
      }
    }
  }

  private static String state(String path, boolean all) throws Exception {
    StringBuilder found = new StringBuilder();
    try {
      for (FileStatus file : files().listStatus(new Path(path))) {
        if (all || !file.getPath().getName().startsWith(".")) {
          found.append(file.getPath().getName()).append(all ? " " : ":" + file.getLen() + " ");
        }
      }
    } catch (FileNotFoundException e) {
      return "absent";
    }
    return found.toString().trim();
  }

  private static DistributedFileSystem files() throws Exception {
    return cluster.getFileSystem();
  }

  private static FSDataOutputStream create(String path, long block) throws Exception {
    return files().create(new Path(path), true, 1 << 16, (short) 2, block);
  }
}
