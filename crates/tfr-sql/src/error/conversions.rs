//! How to convert files of unsupported formats to a supported one.

/// Returns how to convert a file of the format with this name. `FILE` is a placeholder for its name.
pub(super) fn conversion(format: &str) -> Option<&'static str> {
    CONVERSIONS.iter().find(|(name, _)| *name == format).map(|(_, conversion)| *conversion)
}

const IMAGES: &str = "read images as rows with files('DIR/*'), their bytes as a value";

/// By the names of [`tfr_formats::foreign_formats`]. All compression formats share one hint.
const CONVERSIONS: &[(&str, &str)] = &[
    ("encrypted Parquet files", "write it without encryption where the keys are"),
    (
        "Feather V1 files",
        "python3 -c \"import pyarrow.feather as f, pyarrow.parquet as p; p.write_table(f.read_table('FILE'), 'out.parquet')\"",
    ),
    ("Hadoop sequence files", "have Hive or Spark write the table as Parquet"),
    ("Hive RCFiles", "have Hive or Spark write the table as Parquet"),
    (
        "NumPy arrays",
        "python3 -c \"import numpy, pandas; pandas.DataFrame({'x': list(numpy.load('FILE'))}).to_parquet('out.parquet')\"",
    ),
    (
        "NumPy archives",
        "python3 -c \"import numpy, pandas; pandas.DataFrame({k: list(v) for k, v in numpy.load('FILE').items()})\
         .to_parquet('out.parquet')\"",
    ),
    (
        "Excel workbooks",
        "python3 -c \"import pandas; pandas.read_excel('FILE').to_parquet('out.parquet')\", or save the sheet as CSV",
    ),
    ("OpenDocument spreadsheets", "save the sheet as CSV"),
    (
        "PyTorch files",
        "load it with torch.load and write its tensors with pandas.DataFrame(...).to_parquet('out.parquet')",
    ),
    ("zip archives", "unzip FILE -d DIR, and query the directory"),
    ("7z archives", "7z x FILE -oDIR, and query the directory"),
    ("RAR archives", "unrar x FILE DIR/, and query the directory"),
    ("tar archives", "tar -xf FILE -C DIR, and query the directory, or its files as rows with files('DIR/**')"),
    (
        "MATLAB files",
        "python3 -c \"import scipy.io, pandas; pandas.DataFrame({k: list(v) for k, v in scipy.io.loadmat('FILE').items() \
         if k[0] != '_'}).to_parquet('out.parquet')\", or h5py for MATLAB 7.3",
    ),
    (
        "HDF5 files",
        "python3 -c \"import h5py, pandas; pandas.DataFrame({k: list(v) for k, v in h5py.File('FILE').items()})\
         .to_parquet('out.parquet')\"",
    ),
    ("NetCDF files", "open it with xarray and write Parquet"),
    ("SQLite databases", "sqlite3 -header -csv FILE 'SELECT * FROM name' > out.csv"),
    ("DuckDB databases", "duckdb FILE \"COPY (SELECT * FROM name) TO 'out.parquet'\""),
    ("LMDB databases", "read it with the lmdb library and write Parquet"),
    ("SAS files", "python3 -c \"import pandas; pandas.read_sas('FILE').to_parquet('out.parquet')\""),
    ("SPSS files", "python3 -c \"import pandas; pandas.read_spss('FILE').to_parquet('out.parquet')\""),
    ("Stata files", "python3 -c \"import pandas; pandas.read_stata('FILE').to_parquet('out.parquet')\""),
    ("R data files", "Rscript -e \"arrow::write_parquet(readRDS('FILE'), 'out.parquet')\""),
    (
        "Lance files",
        "python3 -c \"import lance, pyarrow.parquet as p; p.write_table(lance.dataset('DIR').to_table(), 'out.parquet')\"",
    ),
    (
        "Python pickles",
        "python3 -c \"import pandas; pandas.read_pickle('FILE').to_parquet('out.parquet')\", if you trust its origin: a pickle \
         can run any program",
    ),
    (
        "MessagePack files",
        "python3 -c \"import json, msgpack; [print(json.dumps(row)) for row in msgpack.Unpacker(open('FILE', 'rb'))]\" > out.jsonl",
    ),
    (
        "protocol buffer messages",
        "read them with the classes of their .proto file, and write google.protobuf.json_format.MessageToJson to out.jsonl",
    ),
    ("safetensors files", "load it with safetensors.numpy.load_file and write Parquet"),
    ("XML documents", "python3 -c \"import pandas; pandas.read_xml('FILE').to_parquet('out.parquet')\""),
    ("HTML documents", "python3 -c \"import pandas; pandas.read_html('FILE')[0].to_parquet('out.parquet')\""),
    ("PNG images as a table", IMAGES),
    ("JPEG images as a table", IMAGES),
    ("GIF images as a table", IMAGES),
    ("PDF documents", "read it as a row with files('FILE'), its bytes as a value"),
];

#[cfg(test)]
mod tests {
    use tfr_formats::UnsupportedFormat;

    use super::*;

    #[test]
    fn foreign_formats_have_conversion_hints() {
        let name = |format| match format {
            UnsupportedFormat::Named(name) => Some(name),
            _ => None,
        };
        let mut formats: Vec<_> = tfr_formats::foreign_formats().filter_map(name).collect();
        let mut named: Vec<_> = CONVERSIONS.iter().map(|(name, _)| *name).collect();
        formats.sort_unstable();
        named.sort_unstable();
        assert_eq!(named, formats);
    }
}
