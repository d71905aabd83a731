//! `nvl`, `ifnull` and `nvl2`, whose results have the type of their values.
//!
//! The engine converts the arguments of `nvl` to the first of a list of types that can hold any of them, and the list
//! has no decimals, dates or timestamps: `nvl(d, 0)` of a decimal was a double, of a date and a timestamp a text, and
//! `nvl(true, 2)` was true. The value that `nvl2` tests took part in the type of its result: `nvl2('a', 1, 2)` was a text.
//!
//! Upstream: ours (a choice of meaning). Held by `tests/slt/other_suites.slt`: nvl, ifnull and nvl2 have the type of their values.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::functions::core::{coalesce, nvl, nvl2};
use datafusion_common::Result;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};

use crate::corrected::{Corrected, Correction, coerced_by};

/// Returns the functions to register in place of the engine's.
pub(crate) fn functions() -> [Arc<ScalarUDF>; 2] {
    [Corrected::function(nvl(), &Choice::First), Corrected::function(nvl2(), &Choice::Second)]
}

/// A function that returns one of two values.
#[derive(Debug)]
enum Choice {
    /// `nvl(a, b)` is `coalesce(a, b)`.
    First,
    /// `nvl2(x, a, b)` is `CASE WHEN x IS NOT NULL THEN a ELSE b END`.
    Second,
}

impl Correction for Choice {
    fn coerce(&self, _: &ScalarUDF, types: &[DataType]) -> Result<Option<Vec<DataType>>> {
        match (self, types) {
            (Self::First, [_, _]) => coerced_by(&coalesce(), types).map(Some),
            (Self::Second, [tested, values @ ..]) if values.len() == 2 => {
                let mut coerced = coerced_by(&coalesce(), values)?;
                coerced.insert(0, tested.clone());
                Ok(Some(coerced))
            }
            // The engine reports the number of arguments.
            _ => Ok(None),
        }
    }

    fn invoke(&self, engine: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        engine.invoke_with_args(args)
    }

    fn simplifies_as_engine(&self) -> bool {
        true
    }
}
