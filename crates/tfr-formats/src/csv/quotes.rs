//! [`QuotedCells`]: finds the cells of a record that are in quotes.

/// The quoted cells of a record.
pub(super) struct QuotedCells {
    quotes: OpeningQuotes,
    cell: usize,
    pub(super) cells: Vec<usize>,
}

impl QuotedCells {
    pub(super) fn new(quote: u8, escape: Option<u8>, delimiter: u8, first: usize) -> Self {
        Self { quotes: OpeningQuotes::new(quote, escape, delimiter), cell: first, cells: Vec::new() }
    }

    pub(super) fn read(&mut self, text: &[u8]) {
        for byte in text {
            match self.quotes.next(*byte) {
                Opening::Cell => self.cell += 1,
                Opening::Quote => self.cells.push(self.cell),
                Opening::None => {}
            }
        }
    }
}

/// Finds the opening quotes of the cells in one record's text, by the rules of csv_core.
struct OpeningQuotes {
    quote: u8,
    escape: Option<u8>,
    delimiter: u8,
    state: QuoteState,
}

/// What a byte starts.
enum Opening {
    /// The next cell.
    Cell,
    /// The quotes around this cell.
    Quote,
    None,
}

#[derive(Clone, Copy)]
enum QuoteState {
    CellStart,
    Unquoted,
    Quoted,
    Escaped,
    /// After a quote that closes the cell, unless another one follows.
    Closed,
}

impl OpeningQuotes {
    fn new(quote: u8, escape: Option<u8>, delimiter: u8) -> Self {
        Self { quote, escape, delimiter, state: QuoteState::CellStart }
    }

    fn next(&mut self, byte: u8) -> Opening {
        use QuoteState::{CellStart, Closed, Escaped, Quoted, Unquoted};
        let is_quote = byte == self.quote;
        let (state, opening) = match self.state {
            CellStart if is_quote => (Quoted, Opening::Quote),
            CellStart | Unquoted | Closed if byte == self.delimiter => (CellStart, Opening::Cell),
            CellStart | Unquoted => (Unquoted, Opening::None),
            Quoted if is_quote => (Closed, Opening::None),
            Quoted if Some(byte) == self.escape => (Escaped, Opening::None),
            Quoted | Escaped => (Quoted, Opening::None),
            Closed if is_quote => (Quoted, Opening::None),
            Closed => (Unquoted, Opening::None),
        };
        self.state = state;
        opening
    }
}
