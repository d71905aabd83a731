//! Words that represent a missing value in files of other programs.

use super::infer::CellType;

/// Written for a missing value by R, pandas, Hive, MySQL, Excel and people.
const WORDS: [&str; 17] = [
    "NA", "N/A", "n/a", "na", "#N/A", "<NA>", "NULL", "null", "Null", "\\N", "None", "none", "nil", "-", "--", "?", ".",
];

/// The cells of a column examined so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Observed {
    /// The type that fits all of them.
    pub(super) cell_type: CellType,
    /// The type that fits those that are not a null word.
    without_words: CellType,
    /// Bit set of the words seen.
    words: u32,
}

impl Observed {
    /// Whether further cells cannot change the result.
    pub(super) fn is_settled(&self) -> bool {
        self.cell_type == CellType::Text && self.without_words == CellType::Text
    }

    /// Examines a cell that is not null.
    pub(super) fn observe(&mut self, cell: &str) {
        let cell_type = CellType::of(cell);
        self.cell_type = self.cell_type.join(cell_type);
        match WORDS.iter().position(|word| *word == cell) {
            Some(word) => self.words |= 1 << word,
            None => self.without_words = self.without_words.join(cell_type),
        }
    }

    /// Examines a cell that is neither null nor a value of another type.
    pub(super) fn observe_text(&mut self) {
        (self.cell_type, self.without_words) = (CellType::Text, CellType::Text);
    }

    /// Combines the observations of both.
    pub(super) fn join(self, other: Self) -> Self {
        Self {
            cell_type: self.cell_type.join(other.cell_type),
            without_words: self.without_words.join(other.without_words),
            words: self.words | other.words,
        }
    }

    /// If the column is text only because of such words: the words, and the type of the other cells.
    pub(super) fn text_for_words(&self) -> Option<(Vec<&'static str>, CellType)> {
        let is_value = !matches!(self.without_words, CellType::Text | CellType::Unknown);
        let words = WORDS.iter().enumerate().filter(|(word, _)| self.words & 1 << word != 0);
        (self.cell_type == CellType::Text && is_value)
            .then(|| (words.map(|(_, word)| *word).collect(), self.without_words))
    }
}
