//! The options of libsvm.

use super::{boolean, compression, encoding, invalid};
use crate::error::Result;
use crate::libsvm::{IndexBase, LibSvmOptions};

pub(super) const KEYS: &[&str] = &["index_base", "features", "multilabel", "qid", "encoding", "compression"];

/// A row of all of them has 128 MiB.
const MAX_FEATURES: usize = 1 << 24;

/// Sets an option of libsvm; `false` if it has no such option.
pub(super) fn set(libsvm: &mut LibSvmOptions, key: &str, value: &str) -> Result<bool> {
    match key {
        "index_base" => {
            libsvm.index_base = match value {
                "as-written" => IndexBase::AsWritten,
                "0" => IndexBase::Zero,
                "1" => IndexBase::One,
                _ => return Err(invalid("index_base", value, "0, 1 or as-written").into()),
            }
        }
        "features" => {
            let count = value.parse::<usize>().ok().filter(|count| (1..=MAX_FEATURES).contains(count));
            let expected = format!("the number of features, at most {MAX_FEATURES}");
            libsvm.features = Some(count.ok_or_else(|| invalid("features", value, &expected))?);
        }
        "multilabel" => libsvm.multilabel = boolean("multilabel", value)?,
        "qid" => libsvm.qid = Some(boolean("qid", value)?),
        "encoding" => libsvm.encoding = encoding(value)?,
        "compression" => libsvm.compression = compression(value)?,
        _ => return Ok(false),
    }
    Ok(true)
}
