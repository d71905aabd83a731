//! [`WriteIds`] and [`Transactions`]: what of a transactional table was committed.

/// The write ids of a table that were committed, as a metastore answers them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteIds {
    /// The full name of the table.
    pub table: String,
    /// The highest one that was given to a transaction.
    high: i64,
    /// The lowest one of an open transaction, or `i64::MAX`.
    lowest_open: i64,
    /// Those of open and of aborted transactions, ascending.
    invalid: Vec<i64>,
    aborted: Vec<i64>,
}

/// How many of the write ids in a range were committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Committed {
    None,
    Some,
    All,
}

impl WriteIds {
    /// Parses the text of Hive: `table:highest:lowest open:open ids:aborted ids`, with commas between ids. The error is what
    /// was expected.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "committed write ids as Hive writes them, 'table:highest:lowest open:open ids:aborted ids'";
        let parts: Vec<_> = text.rsplitn(5, ':').collect();
        let [aborted, open, lowest_open, high, table] = parts.as_slice() else { return Err(FORM.to_owned()) };
        let number = |text: &str| text.trim().parse::<i64>().map_err(|_| FORM.to_owned());
        let numbers = |text: &str| match text.trim() {
            "" => Ok(Vec::new()),
            text => text.split(',').map(number).collect::<Result<Vec<_>, _>>(),
        };
        let (open, aborted) = (numbers(open)?, numbers(aborted)?);
        Self::new((*table).to_owned(), number(high)?, number(lowest_open)?, open, aborted)
    }

    /// Creates the write ids of a table. The error is what was expected.
    pub(crate) fn new(
        table: String,
        high: i64,
        lowest_open: i64,
        open: Vec<i64>,
        mut aborted: Vec<i64>,
    ) -> Result<Self, String> {
        if high < 0 {
            return Err(format!("a highest write id that is not negative, not {high}"));
        }
        if let Some(id) = open.iter().chain(&aborted).find(|id| **id <= 0) {
            return Err(format!("write ids above 0, not {id}"));
        }
        if let Some(id) = open.iter().find(|id| **id < lowest_open) {
            return Err(format!("no open write id below the lowest one, {lowest_open}, but found {id}"));
        }
        aborted.sort_unstable();
        let mut invalid = [open, aborted.clone()].concat();
        invalid.sort_unstable();
        invalid.dedup();
        Ok(Self { table, high, lowest_open, invalid, aborted })
    }

    /// Whether a write id was committed. Rows from before the table became transactional have 0.
    pub(super) fn is_committed(&self, id: i64) -> bool {
        id <= self.high && self.invalid.binary_search(&id).is_err()
    }

    /// Whether the rows of a compaction up to this write id are those that were committed.
    pub(super) fn is_complete(&self, id: i64) -> bool {
        id < self.lowest_open && id <= self.high
    }

    /// Returns how many of the write ids from `first` to `last` were committed.
    pub(super) fn committed(&self, first: i64, last: i64) -> Committed {
        if first > self.high {
            return Committed::None;
        }
        let within = &self.invalid[self.invalid.partition_point(|id| *id < first)..];
        let invalid = within.partition_point(|id| *id <= last.min(self.high)) as i64;
        match self.high.min(last) - first + 1 - invalid {
            0 => Committed::None,
            _ if invalid == 0 && last <= self.high => Committed::All,
            _ => Committed::Some,
        }
    }

    /// Whether no write id from `first` to `last` is open or above the highest one.
    pub(super) fn is_decided(&self, first: i64, last: i64) -> bool {
        let within = &self.invalid[self.invalid.partition_point(|id| *id < first)..];
        let mut within = within.iter().take_while(|id| **id <= last);
        last <= self.high && within.all(|id| self.aborted.binary_search(id).is_ok())
    }
}

/// The transactions of a metastore that were committed. They decide about the directories of compactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transactions {
    high: i64,
    /// Those that are open or were aborted, ascending.
    invalid: Vec<i64>,
}

impl Transactions {
    /// Creates the transactions up to `high` but for these.
    pub(crate) fn new(high: i64, mut invalid: Vec<i64>) -> Self {
        invalid.sort_unstable();
        Self { high, invalid }
    }

    /// Whether a transaction was committed.
    pub(super) fn is_committed(&self, id: i64) -> bool {
        id <= self.high && self.invalid.binary_search(&id).is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acid_write_ids_are_read_as_hive_writes_them() {
        let ids = WriteIds::parse("default.t:9:5:5,7:2,3").unwrap();
        assert_eq!(ids.table, "default.t");
        let committed: Vec<_> = (0..12).filter(|id| ids.is_committed(*id)).collect();
        assert_eq!(committed, [0, 1, 4, 6, 8, 9]);
        for (first, last, expected) in [
            (1, 1, Committed::All),
            (1, 2, Committed::Some),
            (2, 3, Committed::None),
            (2, 4, Committed::Some),
            (8, 9, Committed::All),
            (9, 10, Committed::Some),
            (10, 12, Committed::None),
            (7, 7, Committed::None),
        ] {
            assert_eq!(ids.committed(first, last), expected, "{first} {last}");
        }
        assert!(ids.is_complete(4) && !ids.is_complete(5) && !ids.is_complete(10));
        assert!(ids.is_decided(1, 4) && !ids.is_decided(1, 5) && !ids.is_decided(8, 10));
        let none_open = WriteIds::parse("t:2:9223372036854775807::").unwrap();
        assert!(none_open.is_complete(2) && !none_open.is_complete(3));
    }

    #[test]
    fn acid_write_ids_that_are_none_are_refused() {
        for text in [
            "",
            "t",
            "t:1:2:3",
            "t:x:1::",
            "t:1:9223372036854775807:a:",
            "t:-1:1::",
            "t:5:4:3:",
            "t:5:1:0:",
            "t:5:9::-2",
        ] {
            WriteIds::parse(text).expect_err(text);
        }
    }
}
