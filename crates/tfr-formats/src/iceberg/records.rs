//! [`Record`]: the records of manifests, which are Avro files.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::DataType;

/// A record in a manifest, or a part of one. Errors are descriptions of the defect.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) fields: &'a StructArray,
    pub(super) row: usize,
}

impl<'a> Record<'a> {
    /// Returns the values of a field; `None` if there is no such field, or it is null here.
    fn field(&self, name: &str) -> Option<&'a ArrayRef> {
        self.fields.column_by_name(name).filter(|values| values.is_valid(self.row))
    }

    fn wrong(name: &str, found: &DataType) -> String {
        format!("its field {name} has the type {found}")
    }

    pub(super) fn optional_long(&self, name: &str) -> Result<Option<i64>, String> {
        let Some(values) = self.field(name) else { return Ok(None) };
        match values.data_type() {
            DataType::Int32 => Ok(Some(values.as_primitive::<Int32Type>().value(self.row).into())),
            DataType::Int64 => Ok(Some(values.as_primitive::<Int64Type>().value(self.row))),
            other => Err(Self::wrong(name, other)),
        }
    }

    pub(super) fn long(&self, name: &str) -> Result<i64, String> {
        self.optional_long(name)?.ok_or_else(|| format!("it has no {name}"))
    }

    /// Returns a number that is not negative.
    pub(super) fn optional_count(&self, name: &str) -> Result<Option<u64>, String> {
        let Some(number) = self.optional_long(name)? else { return Ok(None) };
        u64::try_from(number).map(Some).map_err(|_| format!("its {name} is {number}"))
    }

    pub(super) fn count(&self, name: &str) -> Result<u64, String> {
        self.optional_count(name)?.ok_or_else(|| format!("it has no {name}"))
    }

    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&'a str>, String> {
        let Some(values) = self.field(name) else { return Ok(None) };
        match values.data_type() {
            DataType::Utf8 => Ok(Some(values.as_string::<i32>().value(self.row))),
            other => Err(Self::wrong(name, other)),
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<&'a str, String> {
        self.optional_text(name)?.ok_or_else(|| format!("it has no {name}"))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.field(name).is_some()
    }

    pub(super) fn record(&self, name: &str) -> Result<Record<'a>, String> {
        let values = self.field(name).ok_or_else(|| format!("it has no {name}"))?;
        let fields = values.as_struct_opt().ok_or_else(|| Self::wrong(name, values.data_type()))?;
        Ok(Record { fields, row: self.row })
    }

    /// Returns the ids in a field, which is empty if it is null.
    pub(super) fn ids(&self, name: &str) -> Result<Vec<i32>, String> {
        let Some(values) = self.field(name) else { return Ok(Vec::new()) };
        let wrong = || Self::wrong(name, values.data_type());
        let items = values.as_list_opt::<i32>().ok_or_else(wrong)?.value(self.row);
        let ids = items.as_primitive_opt::<Int32Type>().ok_or_else(wrong)?;
        let ids: Option<_> = ids.iter().collect();
        ids.ok_or_else(|| format!("its {name} has a null"))
    }

    /// Returns the bound of a column in a list of the ids of columns and their bounds. `None` if it is not there, or the
    /// list has another form.
    pub(super) fn bound(&self, name: &str, id: i32) -> Option<&'a [u8]> {
        let lists = self.field(name)?.as_list_opt::<i32>()?;
        let pairs = lists.values().as_struct_opt()?;
        let keys = pairs.column_by_name("key")?.as_primitive_opt::<Int32Type>()?;
        let bounds = pairs.column_by_name("value")?.as_binary_opt::<i32>()?;
        let offsets = lists.value_offsets();
        let mut range = (offsets[self.row]..offsets[self.row + 1]).filter_map(|at| usize::try_from(at).ok());
        range.find(|at| keys.value(*at) == id).map(|at| bounds.value(at))
    }
}
