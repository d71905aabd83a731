//! [`RecordScanner`]: walks a damaged file, and finds what is sound in it.

use std::{fmt, ops::Range};

use crate::{
    Compression, MAX_RECORD_LEN, Position, Records, Result,
    frame::{Header, OVERHEAD},
    records::{Each, Sink},
    unpack::{Unpack, UnpackError},
};

mod window;
use window::Window;

/// A stretch of a file that holds no sound record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// What was found where the stretch begins.
    pub kind: DamageKind,
    /// Number of records before it, where every stretch before it counts as one.
    pub record: u64,
    /// The bytes, of the framed records: in a compressed file, those after decompression.
    pub range: Range<u64>,
    /// In a gzip file with a damaged stream: the bytes of the file from the damage to the member with which reading
    /// goes on, or to the end. How many framed bytes they held is not known; those that follow are counted as if it
    /// were none.
    pub passed_over: Option<Range<u64>>,
}

/// The kinds of [`Damage`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// No record header: its length does not match its checksum.
    LengthCrc,
    /// A payload that does not match its checksum.
    DataCrc,
    /// A record, or its header, that leads past the end of the file.
    Truncated,
    /// A record longer than allowed.
    RecordTooLong {
        /// Its payload's length in bytes.
        len: u64,
    },
    /// Nothing but zero bytes.
    ZeroPadding,
    /// The compressed stream is damaged or cut here; what follows cannot be decompressed, up to the next gzip member.
    /// The range may be empty.
    Compression {
        /// The stream's compression.
        compression: Compression,
        /// What is wrong with it.
        reason: String,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, record, range, passed_over } = self;
        write!(f, "record {record} at byte {}: {kind}", range.start)?;
        match range.end - range.start {
            0 => {}
            1 => f.write_str(", 1 byte lost")?,
            lost => write!(f, ", {lost} bytes lost")?,
        }
        match passed_over {
            Some(range) if !range.is_empty() => {
                write!(f, ", bytes {} to {} of the file passed over", range.start, range.end)
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LengthCrc => f.write_str("length does not match its checksum"),
            Self::DataCrc => f.write_str("payload does not match its checksum"),
            Self::Truncated => f.write_str("truncated"),
            Self::RecordTooLong { len } => write!(f, "record of {len} bytes is too long"),
            Self::ZeroPadding => f.write_str("zero bytes where a record should start"),
            Self::Compression { compression, reason } => write!(f, "invalid {compression} stream: {reason}"),
        }
    }
}

/// Walks a file from any byte on, in pieces of any length, past all damage: sound records come out, and the stretches
/// between them. Together they cover the file.
///
/// A record is sound if both its checksums hold. After damage the next sound record is looked for at every byte.
///
/// * If only a payload is damaged, as a header or the end of the file right behind it shows, the walk goes on behind
///   it; nothing in the payload is taken for a record.
/// * Behind a damaged header a payload cannot be told from records, so if it holds framed records itself, these come
///   out.
/// * A zlib file is walked up to where its stream is damaged, and past its end if another stream follows. In a gzip
///   file the walk goes on with the next member that can be found; the members that this crate writes hold whole
///   records.
///
/// Time is linear in the length of the file, whatever its content, and memory is that of the longest record allowed (or
/// of the file, if that is shorter) and one piece.
///
/// ```
/// use tfrecord_framing::{RecordScanner, RecordWriter, Records};
///
/// # fn main() -> tfrecord_framing::Result<()> {
/// let mut writer = RecordWriter::new(Vec::new());
/// for record in [b"first".as_slice(), b"second", b"third"] {
///     writer.write_record(record)?;
/// }
/// let mut file = writer.finish()?;
/// file[21] ^= 1;
///
/// let mut scanner = RecordScanner::new();
/// let (mut records, mut damage) = (Records::new(), Vec::new());
/// for mut piece in file.chunks(10) {
///     while scanner.scan(&mut piece, 1024, &mut records, &mut damage)? > 0 {}
/// }
/// scanner.finish(&mut records, &mut damage)?;
/// assert_eq!(records.iter().collect::<Vec<_>>(), [b"first", b"third"]);
/// assert_eq!(damage[0].to_string(), "record 1 at byte 21: length does not match its checksum, 22 bytes lost");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RecordScanner {
    unpack: Unpack,
    max_record_len: usize,
    window: Window,
    /// Where the window begins.
    position: Position,
    /// The stretch that is being walked over, if no record is known to start here.
    stretch: Option<Stretch>,
    /// Why the compressed stream ended early.
    cut: Option<DamageKind>,
    /// The byte of the file where that was noticed.
    cut_at: u64,
    /// Whether there may be something to read behind it.
    goes_on: bool,
    /// Damage of the compressed stream behind which no sound record has been found yet.
    gap: Option<Damage>,
    /// Whether nothing is to be added to the window: the file has ended, or its stream is damaged.
    ended: bool,
}

/// The damage met first, and what was walked over since.
#[derive(Debug)]
struct Stretch {
    kind: DamageKind,
    start: u64,
    all_zero: bool,
}

/// What there is at a place of the window.
enum Found {
    /// A sound frame of this length.
    Sound(usize),
    /// An intact header of a frame of this length, whose payload is damaged.
    DataCrc(usize),
    Damage(DamageKind),
    /// Too few bytes to tell.
    More,
}

impl RecordScanner {
    /// A scanner of an uncompressed file.
    pub fn new() -> Self {
        Self::with_compression(Compression::None)
    }

    /// A scanner of a file compressed this way.
    pub fn with_compression(compression: Compression) -> Self {
        Self::with_unpack(Unpack::expect(compression))
    }

    /// A scanner of a file whose compression is told from its content.
    pub fn detect() -> Self {
        Self::with_unpack(Unpack::detect())
    }

    fn with_unpack(unpack: Unpack) -> Self {
        Self {
            unpack,
            max_record_len: MAX_RECORD_LEN,
            window: Window::default(),
            position: Position::default(),
            stretch: None,
            cut: None,
            cut_at: 0,
            goes_on: false,
            gap: None,
            ended: false,
        }
    }

    /// Takes records of more than `len` bytes for damage, instead of those of more than [`MAX_RECORD_LEN`].
    pub fn with_max_record_len(mut self, len: usize) -> Self {
        self.max_record_len = len;
        self
    }

    /// Takes the first byte to be at this place of an uncompressed file, instead of at its start. If no record starts
    /// there, the bytes up to the first one that does are damage.
    pub fn with_position(mut self, position: Position) -> Self {
        self.position = position;
        if position.byte > 0 {
            self.unpack.believe();
        }
        self
    }

    /// The file's compression, once it is known.
    pub fn compression(&self) -> Option<Compression> {
        self.unpack.compression()
    }

    /// Appends sound records to `records`, at most `limit`, and the damage on the way to `damage`; returns the number
    /// of records, where 0 means that the whole of `input` was taken and more is needed (or `limit` is 0). `input` is
    /// left at what was not taken.
    ///
    /// Call it again while it returns more than 0, even with an empty `input`.
    ///
    /// # Errors
    ///
    /// `WrongCompression`; everything else is damage.
    pub fn scan(
        &mut self,
        input: &mut &[u8],
        limit: usize,
        records: &mut Records,
        damage: &mut Vec<Damage>,
    ) -> Result<usize> {
        self.scan_into(input, limit, records, damage)
    }

    /// As [`scan`](Self::scan), but hands every sound record to `each` as it stands in the file, in its frame, and
    /// where its frame starts.
    ///
    /// # Errors
    ///
    /// As [`scan`](Self::scan).
    pub fn scan_frames(
        &mut self,
        input: &mut &[u8],
        limit: usize,
        each: impl FnMut(&[u8], Position),
        damage: &mut Vec<Damage>,
    ) -> Result<usize> {
        self.scan_into(input, limit, &mut Each(each), damage)
    }

    fn scan_into(
        &mut self,
        input: &mut &[u8],
        limit: usize,
        records: &mut impl Sink,
        damage: &mut Vec<Damage>,
    ) -> Result<usize> {
        loop {
            let scanned = self.walk(limit, records, damage);
            if scanned > 0 || limit == 0 {
                return Ok(scanned);
            }
            if self.ended {
                if self.find_next_member() {
                    continue;
                }
                *input = &[];
                return Ok(0);
            }
            let before = self.window.len();
            let unpacked = self.unpack.unpack(input, self.window.tail());
            self.cut_short(unpacked)?;
            if !self.ended && self.window.len() == before {
                return Ok(0);
            }
        }
    }

    /// Ends the file: appends all records and damage still to come.
    ///
    /// Call it after [`scan`](Self::scan) returned 0 for the last piece.
    ///
    /// # Errors
    ///
    /// `WrongCompression`, in a file of a few bytes.
    pub fn finish(&mut self, records: &mut Records, damage: &mut Vec<Damage>) -> Result<()> {
        self.finish_into(records, damage)
    }

    /// As [`finish`](Self::finish), with whole frames as [`scan_frames`](Self::scan_frames) hands them out.
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish).
    pub fn finish_frames(&mut self, each: impl FnMut(&[u8], Position), damage: &mut Vec<Damage>) -> Result<()> {
        self.finish_into(&mut Each(each), damage)
    }

    fn finish_into(&mut self, records: &mut impl Sink, damage: &mut Vec<Damage>) -> Result<()> {
        if !self.ended {
            let mut finished = self.unpack.finish(self.window.tail());
            while let Err(cut) = finished {
                self.cut_short(Err(cut))?;
                // What came before the end may have been taken for a part of a damaged member.
                while self.scan_into(&mut &[][..], usize::MAX, records, damage)? > 0 {}
                finished = if self.ended { Ok(()) } else { self.unpack.finish(self.window.tail()) };
            }
        }
        self.ended = true;
        self.walk(usize::MAX, records, damage);
        self.note_cut();
        self.end_gap(self.unpack.taken().0, damage);
        Ok(())
    }

    /// Takes damage of the compressed stream for its end.
    fn cut_short(&mut self, unpacked: Result<(), UnpackError>) -> Result<()> {
        match unpacked {
            Ok(()) => Ok(()),
            Err(UnpackError::Stream { compression, source }) => {
                self.ended = true;
                self.cut_at = self.unpack.taken().0;
                // Back only once for each gap: else a hostile file could be read many times over.
                self.goes_on = self.unpack.search(self.gap.is_none());
                match &self.gap {
                    // What was taken for a member is none.
                    Some(gap) => {
                        self.position.byte = gap.range.end;
                        self.stretch = None;
                        self.window.clear();
                    }
                    None => self.cut = Some(DamageKind::Compression { compression, reason: source.to_string() }),
                }
                Ok(())
            }
            Err(error) => Err(error.at(self.position)),
        }
    }

    /// Goes on with the next gzip member or zlib stream; false if there is no such thing.
    fn find_next_member(&mut self) -> bool {
        self.note_cut();
        self.ended = !std::mem::take(&mut self.goes_on);
        !self.ended
    }

    /// Notes damage of the stream that no record is known to be cut by.
    fn note_cut(&mut self) {
        if let Some(kind) = self.cut.take() {
            let start = self.position.byte;
            self.begin_gap(kind, start..start);
        }
    }

    fn begin_gap(&mut self, kind: DamageKind, range: Range<u64>) {
        let is_gzip = self.compression() == Some(Compression::Gzip);
        let passed_over = is_gzip.then_some(self.cut_at..self.cut_at);
        self.gap = Some(Damage { kind, record: self.position.record, range, passed_over });
        self.position.record += 1;
    }

    /// Tells of damage of the stream, once it is known at which byte of the file reading goes on.
    fn end_gap(&mut self, file_byte: u64, damage: &mut Vec<Damage>) {
        if let Some(mut gap) = self.gap.take() {
            gap.passed_over = gap.passed_over.map(|range| range.start.min(file_byte)..file_byte);
            damage.push(gap);
        }
    }

    /// Walks the window, as far as can be told what is there.
    fn walk(&mut self, limit: usize, records: &mut impl Sink, damage: &mut Vec<Damage>) -> usize {
        let mut found = 0;
        while found < limit {
            if self.stretch.is_some() {
                self.skip(self.window.next_header(self.max_record_len));
            }
            match self.look() {
                Found::Sound(len) => {
                    self.end_gap(self.unpack.taken().1, damage);
                    self.end_stretch(damage);
                    records.push(&self.window.bytes()[..len], self.position);
                    found += 1;
                    self.advance(len);
                    self.position.record += 1;
                }
                Found::DataCrc(len) if self.stretch.is_none() => match self.leads_on(len) {
                    Some(true) => {
                        self.begin_stretch(DamageKind::DataCrc);
                        self.advance(len);
                        self.end_stretch(damage);
                    }
                    Some(false) => {
                        self.begin_stretch(DamageKind::DataCrc);
                        self.skip(1);
                    }
                    None => break,
                },
                Found::DataCrc(_) => self.skip(1),
                Found::Damage(kind) => {
                    self.begin_stretch(kind);
                    self.skip(1);
                }
                Found::More if !self.ended => break,
                Found::More => {
                    if !self.window.bytes().is_empty() {
                        self.begin_stretch(DamageKind::Truncated);
                        self.skip(self.window.len());
                    }
                    if let Some(Stretch { kind: kind @ DamageKind::Truncated, .. }) = &mut self.stretch
                        && let Some(cut) = self.cut.take()
                    {
                        *kind = cut;
                    }
                    self.end_stretch(damage);
                    break;
                }
            }
        }
        found
    }

    fn look(&mut self) -> Found {
        let bytes = self.window.bytes();
        let Some(header) = bytes.first_chunk() else { return Found::More };
        let header = Header::parse(header);
        if !header.is_intact() {
            return Found::Damage(DamageKind::LengthCrc);
        }
        let Some(len) = header.len_within(self.max_record_len) else {
            return Found::Damage(DamageKind::RecordTooLong { len: header.len() });
        };
        let frame_len = OVERHEAD + len;
        if bytes.len() >= frame_len {
            if self.window.is_sound(frame_len) { Found::Sound(frame_len) } else { Found::DataCrc(frame_len) }
        } else if self.ended {
            Found::Damage(DamageKind::Truncated)
        } else {
            Found::More
        }
    }

    /// Whether `len` bytes further on there is an intact header or the end of the file, once that can be told.
    fn leads_on(&self, len: usize) -> Option<bool> {
        let rest = &self.window.bytes()[len..];
        match rest.first_chunk() {
            Some(header) => Some(Header::parse(header).is_intact()),
            None => self.ended.then_some(rest.is_empty()),
        }
    }

    /// Begins a stretch here, unless one has begun before.
    fn begin_stretch(&mut self, kind: DamageKind) {
        let start = self.position.byte;
        self.stretch.get_or_insert(Stretch { kind, start, all_zero: true });
    }

    fn end_stretch(&mut self, damage: &mut Vec<Damage>) {
        if let Some(Stretch { kind, start, all_zero }) = self.stretch.take() {
            let kind = match kind {
                DamageKind::LengthCrc | DamageKind::Truncated if all_zero => DamageKind::ZeroPadding,
                kind => kind,
            };
            let range = start..self.position.byte;
            if matches!(kind, DamageKind::Compression { .. }) {
                return self.begin_gap(kind, range);
            }
            self.end_gap(self.unpack.taken().1, damage);
            damage.push(Damage { kind, record: self.position.record, range, passed_over: None });
            self.position.record += 1;
        }
    }

    /// Walks over bytes that are no record.
    fn skip(&mut self, len: usize) {
        if let Some(stretch) = &mut self.stretch {
            stretch.all_zero = stretch.all_zero && self.window.bytes()[..len].iter().all(|&byte| byte == 0);
        }
        self.advance(len);
    }

    fn advance(&mut self, len: usize) {
        self.window.advance(len);
        self.position.byte += len as u64;
    }
}

impl Default for RecordScanner {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
