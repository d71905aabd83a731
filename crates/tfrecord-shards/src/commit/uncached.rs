//! [`UncachedFile`]: a new file whose bytes bypass the page cache.
//!
//! A shard is synced before it is staged, so the run waits for its bytes to reach the disk anyway. And a set is usually
//! larger than its readers want cached. Ordinary writes copy every byte to a cache page that must be found and cleared
//! first. That took a seventh of a conversion's CPU time, and half on a machine where fresh memory is expensive. It
//! also evicted other files from the cache and counted against a container's memory limit.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::io::Errno;

/// Required alignment of the addresses, offsets and lengths of direct writes: the largest logical block size of common
/// disks, and a page (open(2), "`O_DIRECT`").
const ALIGNMENT: usize = 4096;

/// The sizes and number of buffers of a class of files.
#[derive(Debug, Clone, Copy)]
struct Class {
    /// Length of a write in bytes.
    buffer_len: usize,
    /// Maximum number of buffers per file: one being filled, one being written, and possibly one waiting.
    buffers: usize,
}

/// For a few files that are filled one after another. Longer writes were not faster on the disks tried.
const LARGE: Class = Class { buffer_len: 2 << 20, buffers: 3 };

/// For further files, which are filled in parallel.
const SMALL: Class = Class { buffer_len: 512 << 10, buffers: 2 };

/// Maximum number of files with large buffers at a time, per processor: a shard, its index, and those being finished.
const LARGE_PER_PROCESSOR: usize = 4;
const MAX_LARGE: usize = 32;

/// Maximum number of further files with small buffers, which take 64 MiB.
const MAX_SMALL: usize = 64;

/// Minimum number of bytes of an uncached write, because a disk write has a fixed cost.
const LEAST_UNCACHED: usize = 256 << 10;

/// State shared by the uncached files of a set. Limits their number and passes their buffers on to the next files.
#[derive(Debug)]
pub(crate) struct UncachedStreams(Mutex<Shared>);

#[derive(Debug)]
struct Shared {
    large: Pool,
    small: Pool,
    /// Threads without a stream. They end when this is dropped.
    idle: Vec<Writer>,
    /// The thread that received a buffer last.
    latest: Option<Writer>,
}

/// The streams of a class and their buffers.
#[derive(Debug)]
struct Pool {
    class: Class,
    /// Maximum number of streams, and how many of these may still be started.
    most: usize,
    left: usize,
    spare: SpareBuffers,
}

/// Buffers without a stream. A written buffer is returned here at once, so files that are filled more slowly than the
/// disk writes rarely have two.
#[derive(Debug, Clone, Default)]
struct SpareBuffers(Arc<Mutex<Vec<Buffer>>>);

impl SpareBuffers {
    /// Takes the buffer returned last, which may still be in the cache.
    fn take(&self) -> Option<Buffer> {
        self.buffers().pop()
    }

    fn put(&self, buffer: Buffer) {
        self.buffers().push(buffer.cleared());
    }

    fn buffers(&self) -> MutexGuard<'_, Vec<Buffer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for UncachedStreams {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self::new((LARGE_PER_PROCESSOR * processors).min(MAX_LARGE), MAX_SMALL)
    }
}

impl UncachedStreams {
    fn new(large: usize, small: usize) -> Self {
        let pool = |class, streams| Pool { class, most: streams, left: streams, spare: SpareBuffers::default() };
        Self(Mutex::new(Shared {
            large: pool(LARGE, large),
            small: pool(SMALL, small),
            idle: Vec::new(),
            latest: None,
        }))
    }

    /// Starts a stream to a new file, unless the limit is reached.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<UncachedStream> {
        self.begin_in(false, |Shared { large, small, .. }| [large, small])
    }

    /// Starts a stream to a file that is filled slowly along with another one, and uses the thread of that file, which
    /// is awake anyway. Large buffers take less work: an index costs 1 % of the CPU time of a conversion with two
    /// threads, and 2 % in small buffers. The last quarter of the large buffers is reserved for files that are filled
    /// quickly.
    pub(crate) fn begin_beside(self: &Arc<Self>) -> Option<UncachedStream> {
        self.begin_in(
            true,
            |Shared { large, small, .. }| {
                if large.left > large.most / 4 { [large, small] } else { [small, large] }
            },
        )
    }

    fn begin_in(
        self: &Arc<Self>,
        is_beside: bool,
        pools: impl FnOnce(&mut Shared) -> [&mut Pool; 2],
    ) -> Option<UncachedStream> {
        let shared = &mut *self.shared();
        let pool = pools(shared).into_iter().find(|pool| pool.left > 0)?;
        pool.left -= 1;
        let (class, spare) = (pool.class, pool.spare.clone());
        let buffer = spare.take().unwrap_or_else(|| Buffer::new(class.buffer_len));
        let (writer, handed_on, streams) = (None, VecDeque::new(), Arc::clone(self));
        Some(UncachedStream { class, buffer, spare, is_beside, writer, handed_on, streams })
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn pool(&mut self, class: Class) -> &mut Pool {
        if class.buffer_len == LARGE.buffer_len { &mut self.large } else { &mut self.small }
    }
}

/// A new file. If the file system supports it, another thread writes full buffers past the page cache. The last partial
/// block, small files, and all bytes on other file systems are written normally.
#[derive(Debug)]
pub(crate) struct UncachedFile {
    file: Arc<File>,
    /// `None` if bytes are written as they arrive.
    stream: Option<UncachedStream>,
}

impl UncachedFile {
    /// Wraps an empty file.
    pub(crate) fn new(file: File, stream: Option<UncachedStream>) -> Self {
        Self { file: Arc::new(file), stream }
    }

    /// Writes the buffered bytes and syncs the file.
    pub(crate) fn sync_all(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.sync_all()
    }

    /// Returns room for at least `least` further bytes in the buffer, if available, so that the caller can write there
    /// without a copy. [`advance`](Self::advance) then adds them to the file.
    pub(crate) fn room(&mut self, least: usize) -> Option<&mut [u8]> {
        self.stream.as_mut().map(|stream| stream.buffer.room_mut()).filter(|room| room.len() >= least)
    }

    /// Adds `len` bytes that the caller put in the [`room`](Self::room), as if they were written.
    pub(crate) fn advance(&mut self, len: usize) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        stream.buffer.advance(len);
        if stream.buffer.is_full() && !stream.hand_on(&self.file)? {
            self.flush()?;
        }
        Ok(())
    }

    /// Returns the length of the file, without buffered bytes.
    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

impl Write for UncachedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(room) = self.room(0) else { return self.file.as_ref().write(bytes) };
        let taken = bytes.len().min(room.len());
        if let (Some(room), Some(bytes)) = (room.get_mut(..taken), bytes.get(..taken)) {
            room.copy_from_slice(bytes);
        }
        self.advance(taken)?;
        Ok(taken)
    }

    /// Passes everything to the system. Later bytes are written normally, because their offset is not aligned.
    fn flush(&mut self) -> io::Result<()> {
        self.stream.take().map_or(Ok(()), |stream| stream.finish(&self.file))
    }
}

/// Buffers to be written to a file.
#[derive(Debug)]
pub(crate) struct UncachedStream {
    class: Class,
    buffer: Buffer,
    spare: SpareBuffers,
    /// Whether it uses the thread of another file.
    is_beside: bool,
    writer: Option<Writer>,
    /// The pending result of writing each buffer.
    handed_on: VecDeque<Receiver<io::Result<()>>>,
    streams: Arc<UncachedStreams>,
}

/// A thread that writes buffers of any files in the order of arrival.
#[derive(Debug, Clone)]
struct Writer(Sender<Full>);

/// A buffer to write, its destination, and the channel for the result.
#[derive(Debug)]
struct Full {
    file: Arc<File>,
    buffer: Buffer,
    spare: SpareBuffers,
    result: Sender<io::Result<()>>,
}

impl UncachedStream {
    /// Passes the buffer to the thread and takes another one. Returns false if uncached writes are not supported.
    fn hand_on(&mut self, file: &Arc<File>) -> io::Result<bool> {
        if self.writer.is_none() {
            self.writer = self.begin_writer(file);
        }
        let Some(writer) = self.writer.clone() else { return Ok(false) };
        if self.handed_on.len() + 1 == self.class.buffers {
            self.wait_for_one()?;
        }
        let next = self.spare.take().unwrap_or_else(|| Buffer::new(self.class.buffer_len));
        let buffer = std::mem::replace(&mut self.buffer, next);
        let (file, spare, (result, written)) = (Arc::clone(file), self.spare.clone(), channel());
        writer.0.send(Full { file, buffer, spare, result }).map_err(|_| writer_has_ended())?;
        self.handed_on.push_back(written);
        self.streams.shared().latest = Some(writer);
        Ok(true)
    }

    /// Returns `None` if the file does not support uncached writes, or no thread can be started.
    fn begin_writer(&self, file: &File) -> Option<Writer> {
        set_uncached(file, true).ok()?;
        let shared = &mut *self.streams.shared();
        let ready = if self.is_beside { shared.latest.clone() } else { shared.idle.pop() };
        let writer = ready.map_or_else(Writer::start, Ok);
        if writer.is_err() {
            set_uncached(file, false).ok()?;
        }
        writer.ok()
    }

    /// Waits until the oldest buffer is written.
    fn wait_for_one(&mut self) -> io::Result<()> {
        let written = self.handed_on.pop_front().and_then(|written| written.recv().ok());
        written.unwrap_or_else(|| Err(writer_has_ended()))
    }

    /// Writes the last, partial buffer. Its whole blocks are also written uncached if a buffer preceded or they are
    /// long.
    fn finish(mut self, mut file: &File) -> io::Result<()> {
        let had_writer = self.writer.is_some();
        self.end_writer()?;
        let (blocks, rest) = self.buffer.blocks();
        if had_writer || blocks.len() >= LEAST_UNCACHED && set_uncached(file, true).is_ok() {
            write_blocks(file, blocks)?;
            set_uncached(file, false)?;
            return file.write_all(rest);
        }
        file.write_all(self.buffer.filled())
    }

    /// Waits until all buffers are written, and returns the first error.
    fn end_writer(&mut self) -> io::Result<()> {
        let mut all_written = Ok(());
        while !self.handed_on.is_empty() {
            let written = self.wait_for_one();
            all_written = all_written.and(written);
        }
        let own = self.writer.take().filter(|_| !self.is_beside);
        self.streams.shared().idle.extend(own);
        all_written
    }
}

impl Drop for UncachedStream {
    fn drop(&mut self) {
        // The result is not needed when the file is abandoned.
        let _unwanted = self.end_writer();
        self.spare.put(std::mem::replace(&mut self.buffer, Buffer::new(0)));
        self.streams.shared().pool(self.class).left += 1;
    }
}

impl Writer {
    fn start() -> io::Result<Self> {
        let (full, to_write) = channel::<Full>();
        let write = move || {
            for Full { file, buffer, spare, result } in to_write {
                let written = write_blocks(&file, buffer.filled());
                spare.put(buffer);
                // The receiver of the result closes the file.
                drop(file);
                // There is no receiver if the file was abandoned.
                let _unwanted = result.send(written);
            }
        };
        thread::Builder::new().name("write shard".to_owned()).spawn(write)?;
        Ok(Self(full))
    }
}

fn writer_has_ended() -> io::Error {
    io::Error::other("the thread that writes the file has ended")
}

/// Writes whole blocks, uncached as long as the file system accepts that.
fn write_blocks(mut file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                if !written.is_multiple_of(ALIGNMENT) {
                    set_uncached(file, false)?;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) && set_uncached(file, false)? => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Turns uncached writes on or off. Returns whether that is a change.
#[cfg(target_os = "linux")]
fn set_uncached(file: &File, uncached: bool) -> io::Result<bool> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    let before = fcntl_getfl(file)?;
    let mut flags = before;
    flags.set(OFlags::DIRECT, uncached);
    fcntl_setfl(file, flags)?;
    Ok(flags != before)
}

#[cfg(not(target_os = "linux"))]
fn set_uncached(_: &File, uncached: bool) -> io::Result<bool> {
    if uncached { Err(io::ErrorKind::Unsupported.into()) } else { Ok(false) }
}

/// A buffer whose first byte has an aligned address.
#[derive(Debug)]
struct Buffer {
    /// Never grows, because that would move it.
    bytes: Vec<u8>,
    start: usize,
    /// Length of the filled part after the start.
    len: usize,
    filled: usize,
}

impl Buffer {
    fn new(len: usize) -> Self {
        let bytes = vec![0; ALIGNMENT + len];
        // If the offset is unavailable, the system rejects the write, which is then repeated normally.
        let start = Some(bytes.as_ptr().align_offset(ALIGNMENT)).filter(|start| *start < ALIGNMENT).unwrap_or(0);
        Self { bytes, start, len, filled: 0 }
    }

    fn room_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start + self.filled..self.start + self.len).unwrap_or_default()
    }

    fn advance(&mut self, len: usize) {
        self.filled = (self.filled + len).min(self.len);
    }

    fn filled(&self) -> &[u8] {
        self.bytes.get(self.start..self.start + self.filled).unwrap_or_default()
    }

    /// Returns the whole blocks, and the rest.
    fn blocks(&self) -> (&[u8], &[u8]) {
        let filled = self.filled();
        filled.split_at_checked(filled.len() / ALIGNMENT * ALIGNMENT).unwrap_or((&[], filled))
    }

    fn is_full(&self) -> bool {
        self.filled == self.len
    }

    fn cleared(mut self) -> Self {
        self.filled = 0;
        self
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::iter::repeat_with;

    use super::*;

    const BUFFER_LEN: usize = LARGE.buffer_len;

    fn streams(large: usize) -> Arc<UncachedStreams> {
        Arc::new(UncachedStreams::new(large, 0))
    }

    /// Bytes that do not repeat at multiples of blocks or buffers.
    fn bytes(len: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let next = repeat_with(|| {
            state = state.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
            (state >> 24) as u8
        });
        next.take(len).collect()
    }

    #[test]
    fn uncached_file_of_any_length_keeps_its_content() {
        let dir = tempfile::tempdir().unwrap();
        for (class, streams) in [(LARGE, UncachedStreams::new(1, 0)), (SMALL, UncachedStreams::new(0, 1))] {
            let streams = Arc::new(streams);
            let len = class.buffer_len;
            for len in [0, 1, len / 2, len - 1, len, len + 1, len + 8192, 9 * len + 4097] {
                let expected = bytes(len);
                let path = dir.path().join(format!("{}-{len}", class.buffers));
                let mut file = UncachedFile::new(File::create_new(&path).unwrap(), streams.begin());
                for piece in expected.chunks(100_001) {
                    file.write_all(piece).unwrap();
                }
                file.sync_all().unwrap();
                assert_eq!(file.len().unwrap(), len as u64);
                assert!(fs::read(&path).unwrap() == expected, "{len} bytes");
            }
            // Each file reused the buffers of the one before.
            let spare = streams.shared().pool(class).spare.buffers().len();
            assert!((2..=class.buffers).contains(&spare), "{spare}");
            assert_eq!(streams.shared().idle.len(), 1);
        }
    }

    #[test]
    fn uncached_file_continues_after_a_flush() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let expected = bytes(4 * BUFFER_LEN);
        let mut file = UncachedFile::new(File::create_new(&path).unwrap(), streams(1).begin());
        for piece in expected.chunks(3 * BUFFER_LEN / 2 + 1) {
            file.write_all(piece).unwrap();
            file.flush().unwrap();
        }
        assert!(fs::read(&path).unwrap() == expected);
    }

    #[test]
    fn uncached_streams_are_bounded_and_returned() {
        let streams = Arc::new(UncachedStreams::new(1, 1));
        let (first, second) = (streams.begin().unwrap(), streams.begin().unwrap());
        assert_eq!((first.buffer.len, second.buffer.len), (LARGE.buffer_len, SMALL.buffer_len));
        assert!(streams.begin().is_none());
        drop(first);
        assert_eq!(streams.begin().unwrap().buffer.len, LARGE.buffer_len);
    }

    #[test]
    fn uncached_side_files_leave_a_large_stream_free() {
        let streams = Arc::new(UncachedStreams::new(4, 1));
        let beside = [(); 4].map(|()| streams.begin_beside().unwrap());
        let lens = beside.each_ref().map(|stream| stream.buffer.len);
        assert_eq!(lens, [LARGE, LARGE, LARGE, SMALL].map(|class| class.buffer_len));
        assert_eq!(streams.begin().unwrap().buffer.len, LARGE.buffer_len);
    }

    #[test]
    fn uncached_files_on_one_thread_keep_their_content() {
        let dir = tempfile::tempdir().unwrap();
        let streams = Arc::new(UncachedStreams::new(1, 1));
        let bytes = bytes(BUFFER_LEN);
        let file = |name, stream| UncachedFile::new(File::create_new(dir.path().join(name)).unwrap(), stream);
        let (mut first, mut beside) = (file("first", streams.begin()), file("beside", streams.begin_beside()));
        for _ in 0..9 {
            first.write_all(&bytes).unwrap();
            beside.write_all(&bytes).unwrap();
        }
        first.sync_all().unwrap();
        beside.write_all(&bytes).unwrap();
        beside.sync_all().unwrap();
        // The file that took it returns it once.
        assert_eq!(streams.shared().idle.len(), 1);
        for (name, times) in [("first", 9), ("beside", 10)] {
            let written = fs::read(dir.path().join(name)).unwrap();
            assert!(written == bytes.repeat(times), "{name}");
        }
    }

    #[test]
    fn uncached_buffers_are_returned_once_written() {
        let dir = tempfile::tempdir().unwrap();
        let streams = Arc::new(UncachedStreams::new(0, 2));
        let bytes = bytes(SMALL.buffer_len);
        let [mut first, mut second] = ["first", "second"]
            .map(|name| UncachedFile::new(File::create_new(dir.path().join(name)).unwrap(), streams.begin_beside()));
        first.write_all(&bytes).unwrap();
        first.stream.as_mut().unwrap().wait_for_one().unwrap();
        second.write_all(&bytes).unwrap();
        second.stream.as_mut().unwrap().wait_for_one().unwrap();
        // Each holds one buffer, and they alternate in using a third.
        assert_eq!(streams.shared().small.spare.buffers().len(), 1);
    }

    #[test]
    fn uncached_thread_error_reaches_the_writer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "").unwrap();
        // Not open for writing.
        let streams = streams(1);
        let mut file = UncachedFile::new(File::open(&path).unwrap(), streams.begin());
        let bytes = bytes(BUFFER_LEN);
        let failed = (0..4 * LARGE.buffers).find_map(|_| file.write_all(&bytes).err());
        assert_eq!(failed.unwrap().raw_os_error(), Some(Errno::BADF.raw_os_error()));
        drop(file);
        let path = dir.path().join("next");
        let mut file = UncachedFile::new(File::create_new(&path).unwrap(), streams.begin());
        file.write_all(&bytes).unwrap();
        file.sync_all().unwrap();
        assert!(fs::read(&path).unwrap() == bytes);
        assert_eq!(streams.shared().idle.len(), 1);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn uncached_file_falls_back_to_cached_writes() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        assert!(set_uncached(&full, true).is_err());
        let mut file = UncachedFile::new(full, streams(1).begin());
        let failed = file.write_all(&bytes(BUFFER_LEN)).unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));

        let null = File::options().write(true).open("/dev/null").unwrap();
        let mut file = UncachedFile::new(null, streams(1).begin());
        file.write_all(&bytes(3 * BUFFER_LEN / 2)).unwrap();
        assert!(file.stream.is_none());
    }
}
