//! [`Query`]: parses and plans SQL text, and registers the tables that it needs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::common::utils::datafusion_strsim::levenshtein;
use datafusion::common::{Statistics, TableReference};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    CreateExternalTable, DdlStatement, LogicalPlan, SetVariable, Statement as PlanStatement,
};
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext, displayable};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use serde_json::{Map, Value};
use tfr_arrow::nested::struct_fields;
use tfr_engine::is_ordered;
use tfr_files::{DirectoryTable, Owner};
use tfr_formats::{InputOptions, PinnedVersions, TableSpec, open_locations, open_table};
use tfr_stores::{LocationText, redacted};

use crate::cli::{Declared, Inference, QueryArgs, QuerySource};
use crate::error::{Error, Result};
use crate::metastore::MetastoreTables;
use crate::names;
use crate::origin::{self, Spelling};
use crate::pipe_table::PipeStream;
use crate::pipes::Pipes;
use crate::recorded;
use crate::row_format;
use crate::session;
use crate::spill::SpillDirectory;
use crate::used;

/// A planned query.
pub struct Query {
    /// Its text, without the preceding statements.
    pub text: String,
    /// The logical plan.
    pub logical: LogicalPlan,
    /// The physical plan.
    pub physical: Arc<dyn ExecutionPlan>,
    /// The possible inputs: paths and URLs as the user wrote them.
    pub inputs: BTreeSet<String>,
    /// Details for the manifest: the preceding statements, and the tables of `--table`.
    pub recorded: BTreeMap<String, Value>,
    /// Notes for the user about the tables.
    pub notes: Vec<String>,
    /// The tables of table formats whose files the query reads directly.
    pub owners: Vec<Owner>,
    /// The streams that it reads once, while they arrive.
    pipes: Vec<Arc<PipeStream>>,
}

impl Query {
    /// Parses `text`, registers the tables, runs the preceding statements and plans the query.
    pub async fn plan(context: &SessionContext, args: &QueryArgs, text: &str, spill: &SpillDirectory) -> Result<Self> {
        // Tables are doubtful when they are planned, too.
        session::findings(context).set_strict(args.mapping.declared.options().strict);
        let reads_stdin = matches!(args.source(), QuerySource::Stdin);
        let mut pipes = Pipes::new(spill, reads_stdin, session::piped_files(context), session::door(context));
        let mut statements = parse(text)?;
        let mut query = statements.pop_back().ok_or(Error::EmptyQuery)?;
        if !is_query(&query, args.output.target().is_none()) {
            return Err(Error::NotAQuery(query.to_string()));
        }
        if let Some(used) = used::columns(text) {
            context.state_ref().write().config_mut().set_extension(Arc::new(used));
        }
        let mut inputs = BTreeSet::new();
        let mut recorded = BTreeMap::new();
        let mut notes = Vec::new();
        let mut owners = Vec::new();
        let (mut versions, mut of_files) = (Map::new(), Map::new());
        let rebuilt = args.rebuilt.as_ref();
        let pinned = |name: &str| rebuilt.and_then(|rebuilt| rebuilt.versions.get(name)).copied();
        if let Some(rebuilt) = rebuilt {
            let versions = PinnedVersions(rebuilt.versions.clone());
            context.state_ref().write().config_mut().set_extension(Arc::new(versions));
        }
        if !statements.is_empty() {
            recorded.insert("statements".to_owned(), statements.iter().map(recorded::statement).collect());
        }
        if !args.tables.is_empty() {
            let tables = args.tables.iter().map(|table| (table.name.clone(), recorded::table(table))).collect();
            recorded.insert("tables".to_owned(), Value::Object(tables));
        }
        for table in &args.tables {
            inputs.extend(table.locations.iter().map(LocationText::to_string));
            if let Some(stream) = pipes.stream(&table.locations, &table.options).await? {
                context.register_table(TableReference::bare(table.name.as_str()), stream)?;
                continue;
            }
            let files = pipes.stand_in(&table.locations).await?;
            let mut spec = TableSpec { locations: files, ..table.clone() };
            pinned(&table.name).into_iter().for_each(|version| spec.options.pin(version));
            let opened = open_table(&context.state(), &spec).await;
            let opened = opened.map_err(|error| pipes.explain(&table.locations, error))?;
            notes.extend(origin::note(&opened, &table.name, Spelling::TableKey));
            owners.extend_from_slice(opened.listing().owners());
            versions.extend(recorded::version(&table.name, &opened));
            of_files.extend(recorded::files(&table.name, &opened));
            context.register_table(TableReference::bare(table.name.as_str()), opened)?;
        }
        for mut statement in statements {
            let mut of_statement = Vec::new();
            if let Statement::CreateExternalTable(table) = &mut statement {
                let locations: Vec<_> = table.locations.iter().map(|path| path.as_str().into()).collect();
                inputs.extend(locations.iter().map(LocationText::to_string));
                let files = pipes.stand_in(&locations).await?;
                table.locations = files.iter().map(|file| file.with_secrets().to_owned()).collect();
                of_statement = locations;
            }
            let ran = run_preamble(context, statement).await;
            let Some(table) = ran.map_err(|error| pipes.explain(&of_statement, error))? else { continue };
            let opened = context.table_provider(table.name.clone()).await?;
            let opened = opened.downcast_ref::<DirectoryTable>();
            notes.extend(opened.and_then(|opened| origin::note(opened, table.name.table(), Spelling::SqlOption)));
            owners.extend(opened.into_iter().flat_map(|opened| opened.listing().owners()).cloned());
            versions.extend(opened.and_then(|opened| recorded::version(table.name.table(), opened)));
            of_files.extend(opened.and_then(|opened| recorded::files(table.name.table(), opened)));
        }
        for path in names::quoted_tables(&mut query) {
            if !context.table_exist(TableReference::bare(path.as_str()))? {
                let location = LocationText::from(path.as_str());
                let mut options = input_options(&args.inference);
                pinned(&location.to_string()).into_iter().for_each(|version| options.pin(version));
                let locations = std::slice::from_ref(&location);
                if let Some(stream) = pipes.stream(locations, &InputOptions::default()).await? {
                    context.register_table(TableReference::bare(path.as_str()), stream)?;
                    inputs.insert(location.to_string());
                    continue;
                }
                let files = pipes.stand_in(locations).await?;
                let opened = open_locations(&context.state(), &files, &options, None).await;
                let opened = opened.map_err(|error| pipes.explain(locations, error))?;
                let name = table_name(context, &location)?;
                if name != path {
                    names::rename_quoted(&mut query, &path, &name);
                }
                notes.extend(origin::note(&opened, &name, Spelling::Argument));
                versions.extend(recorded::version(&location.to_string(), &opened));
                of_files.extend(recorded::files(&location.to_string(), &opened));
                context.register_table(TableReference::bare(name), opened)?;
                inputs.insert(location.to_string());
            }
        }
        let metastore = MetastoreTables::register(context, &args.hive, &mut query, pinned).await?;
        versions.extend(metastore.versions());
        inputs.extend(metastore.names());
        if !versions.is_empty() {
            recorded.insert("versions".to_owned(), Value::Object(versions));
        }
        if let Some(rebuilt) = rebuilt {
            rebuilt.check_files(&of_files)?;
        }
        let listed = names::listed_files(&mut query);
        inputs.extend(listed.iter().map(|path| LocationText::from(path.as_str()).to_string()));
        let text = redacted(&query.to_string()).into_owned();
        let logical = names::plan(context, query).await?;
        let physical = context.state().create_physical_plan(&logical).await?;
        // These are found when the query is planned.
        let of_metastore = metastore.files();
        if let Some(rebuilt) = rebuilt {
            rebuilt.check_files(&of_metastore)?;
        }
        of_files.extend(of_metastore);
        for (key, values) in [("files", of_files), ("metastore", metastore.times())] {
            if !values.is_empty() {
                recorded.insert(key.to_owned(), Value::Object(values));
            }
        }
        pipes.keep_for(physical.as_ref()).await?;
        notes.extend(session::findings(context).take_notes());
        if args.output.target().is_some() {
            notes.extend(physical.schema().fields().iter().filter_map(encoded_files));
        }
        log::info!("plan:\n{}", displayable(physical.as_ref()).indent(false));
        Ok(Self { text, logical, physical, inputs, recorded, notes, owners, pipes: pipes.into_streams() })
    }

    /// Prepares for another run of the query: streams that can be read only once are copied to files.
    pub async fn keep_pipes(&self) -> Result<()> {
        for pipe in &self.pipes {
            pipe.keep().await?;
        }
        Ok(())
    }

    /// With `strict`, rejects files that belong to a table of a table format, whose values may differ from the
    /// table's.
    pub fn check_strict(&self, strict: bool) -> Result<()> {
        match self.owners.first() {
            Some(owner) if strict => Err(Error::BareFilesStrict { owner: owner.clone() }),
            _ => Ok(()),
        }
    }

    /// Whether the query specifies an order: its outermost operators keep the order of a sort.
    pub fn is_ordered(&self) -> bool {
        is_ordered(&self.logical)
    }

    /// Whether the requested order does not affect which rows are returned, as it would with a LIMIT.
    pub fn is_sorted_in_full(&self) -> bool {
        let limits = |plan: &LogicalPlan| {
            matches!(plan, LogicalPlan::Limit(_)) || matches!(plan, LogicalPlan::Sort(sort) if sort.fetch.is_some())
        };
        self.is_ordered() && !self.logical.exists(|plan| Ok(limits(plan))).unwrap_or(true)
    }

    /// Whether the query may return another number of rows each time: an operator that selects rows has a volatile
    /// expression, such as `random()`, in it or below it.
    pub fn varies(&self) -> Result<bool> {
        let mut varies = false;
        self.logical.apply_with_subqueries(|plan| {
            let selects = matches!(
                plan,
                LogicalPlan::Filter(_) | LogicalPlan::Join(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_)
            );
            varies |= selects && is_volatile(plan)?;
            Ok(if varies { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(varies)
    }

    /// Returns the statistics that planning has of the rows.
    pub fn statistics(&self) -> Result<Arc<Statistics>> {
        Ok(StatisticsContext::new().compute(self.physical.as_ref(), &StatisticsArgs::new())?)
    }
}

/// Whether a plan, or a subquery in one of its expressions, has a LIMIT; with `unordered`, only one without ORDER BY counts.
pub fn has_limit(plan: &LogicalPlan, unordered: bool) -> Result<bool, DataFusionError> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Limit(limit) if !unordered || !is_ordered(&limit.input));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Returns a note about a column with the bytes and the path of encoded files, as Hugging Face has images and audio.
fn encoded_files(column: &FieldRef) -> Option<String> {
    let fields = struct_fields(column.data_type())?;
    let [bytes, path] = fields.iter().as_slice() else { return None };
    let is_encoded = bytes.name() == "bytes"
        && matches!(bytes.data_type(), DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    let name = column.name().replace('"', "\"\"");
    (is_encoded && path.name() == "path").then(|| {
        format!(
            "note: column \"{name}\" is written as two features, the bytes and the path of files; for the bytes alone, \
             select \"{name}\".bytes AS \"{name}\""
        )
    })
}

/// Returns the table name for `path`: the path itself, without secrets. A number distinguishes paths that differ only
/// in their secrets.
fn table_name(context: &SessionContext, path: &LocationText) -> Result<String> {
    let shown = path.to_string();
    let mut name = shown.clone();
    let mut number = 1;
    while context.table_exist(TableReference::bare(name.as_str()))? {
        number += 1;
        name = format!("{shown} ({number})");
    }
    Ok(name)
}

/// Parses the statements of `text`. A single word gets an error of its own.
fn parse(text: &str) -> Result<VecDeque<Statement>> {
    row_format::parse(text).map_err(|error| match (text.trim(), error) {
        (word, Error::Engine(_)) if !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c == ';') => {
            Error::Word(word.to_owned())
        }
        (_, Error::Engine(source)) => {
            if let Some(words) = reserved_words(text, &source) {
                Error::ReservedWords { words, source }
            } else if let Some(keyword) = misspelled(text, &source) {
                Error::Keyword { keyword, source }
            } else {
                Error::Engine(source)
            }
        }
        (_, error) => error,
    })
}

/// Returns the reserved words that the parser rejected, if the text is valid with them in double quotes: they were
/// meant as names.
fn reserved_words(text: &str, error: &DataFusionError) -> Option<Vec<String>> {
    const MOST: usize = 8;
    let (mut text, mut words) = (text.to_owned(), Vec::new());
    let mut message = error.to_string();
    while words.len() < MOST {
        let (start, word) = stumbled_over(&text, &message)?;
        let word = word.to_owned();
        text.replace_range(start..start + word.len(), &format!("\"{word}\""));
        words.push(word);
        match row_format::parse(&text) {
            Ok(_) => return Some(words),
            Err(Error::Engine(next)) => message = next.to_string(),
            Err(_) => return None,
        }
    }
    None
}

/// Keywords that are looked for behind other spellings, and pairs of which the second word is easily left out.
const KEYWORDS: [&str; 27] = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "GROUP BY",
    "ORDER",
    "ORDER BY",
    "PARTITION",
    "PARTITION BY",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "JOIN",
    "USING",
    "UNION",
    "DISTINCT",
    "BETWEEN",
    "AND",
    "OR",
    "NOT",
    "LIKE",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "OVER",
];

/// Returns the keyword that makes valid SQL of the text, in the place of a similar word at or before the one that the parser
/// rejected: a misspelled keyword is often taken for a name first.
fn misspelled(text: &str, error: &DataFusionError) -> Option<&'static str> {
    /// How many words before it are tried.
    const BEFORE: usize = 2;
    let message = error.to_string();
    let end = match stumbled_over(text, &message) {
        Some((start, word)) => start + word.len(),
        None if message.contains("found: EOF") => text.len(),
        None => offset(text, &message)?,
    };
    let mut words: Vec<_> = words(&text[..end]).collect();
    words.reverse();
    words.truncate(1 + BEFORE);
    let candidates = words.into_iter().flat_map(|(start, word)| {
        let upper = word.to_uppercase();
        KEYWORDS.into_iter().filter_map(move |keyword| {
            let first = keyword.split(' ').next().unwrap_or(keyword);
            let distance = levenshtein(&upper, first);
            let is_similar = distance * 2 <= word.len().min(first.len()) && (distance > 0 || keyword != first);
            is_similar.then_some((start, word.len(), keyword))
        })
    });
    candidates
        .filter(|(start, len, keyword)| {
            let mut corrected = text.to_owned();
            corrected.replace_range(*start..start + len, keyword);
            row_format::parse(&corrected).is_ok()
        })
        .map(|(_, _, keyword)| keyword)
        .next()
}

/// The words of a text, and their byte offsets. Those in quotes are among them.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let ends_word = |c: char| !c.is_alphanumeric() && c != '_';
    let mut next = 0;
    let pieces = text.split_inclusive(ends_word).map(move |piece| {
        let start = next;
        next += piece.len();
        (start, piece.trim_end_matches(ends_word))
    });
    pieces.filter(|(_, word)| !word.is_empty())
}

/// Returns the word that the parser, sqlparser 0.62, did not expect, and its byte offset: `found: values at Line: 1, Column: 8`.
fn stumbled_over<'a>(text: &'a str, message: &str) -> Option<(usize, &'a str)> {
    let start = offset(text, message)?;
    let word = text.get(start..)?;
    let end = word.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(word.len());
    word.get(..end).filter(|word| !word.is_empty() && !word.starts_with(char::is_numeric)).map(|word| (start, word))
}

/// Returns the byte offset of the place that the parser's message names.
fn offset(text: &str, message: &str) -> Option<usize> {
    let (_, place) = message.rsplit_once(" at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    let column: usize = column.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    let line: usize = line.parse().ok()?;
    let lines = text.split_inclusive('\n');
    let before: usize = lines.clone().take(line.checked_sub(1)?).map(str::len).sum();
    let (offset, _) = lines.clone().nth(line - 1)?.char_indices().nth(column.checked_sub(1)?)?;
    Some(before + offset)
}

/// Returns the options for reading a quoted path.
pub fn input_options(inference: &Declared<Inference>) -> InputOptions {
    let mut options = InputOptions::default();
    // Set directly, not as keys, which other formats would reject.
    inference.apply(&mut options.tfrecord);
    options
}

/// Whether `plan` contains a volatile expression, whose value may differ each time.
pub fn is_volatile(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    let mut volatile = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            volatile |= expr.is_volatile();
            Ok(if volatile { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(volatile)
}

/// Settings that cannot be set in SQL, and their replacements.
const FIXED_SETTINGS: [(&str, &str); 5] = [
    (
        "datafusion.execution.enable_file_stream_work_stealing",
        "leave it off: with it, the shards would differ from run to run; --threads sets how many read at a time",
    ),
    (
        "datafusion.execution.max_spill_file_size_bytes",
        "leave it at one byte: with larger files, an exchange that spills can wait for ever",
    ),
    ("datafusion.runtime.memory_limit", "use --memory-limit"),
    ("datafusion.runtime.temp_directory", "use --temp-dir"),
    ("datafusion.runtime.max_spill_merge_fan_in", "leave it; --memory-limit bounds the merge of what was spilled"),
];

/// Settings that the engine allocates memory by, without asking for it, and their largest values.
const LARGEST_SETTINGS: [(&str, u64); 2] =
    [("datafusion.execution.batch_size", 1 << 20), ("datafusion.execution.target_partitions", 1 << 16)];

/// Settings that can be set in a run with `--allow`: how a query is computed and shown, never what it may use.
const OPEN_SETTINGS: [&str; 6] = [
    "datafusion.execution.time_zone",
    "datafusion.optimizer.prefer_hash_join",
    "datafusion.optimizer.repartition_aggregations",
    "datafusion.optimizer.repartition_joins",
    "datafusion.optimizer.repartition_sorts",
    "datafusion.optimizer.repartition_windows",
];

/// Applies a `SET` statement, where the engine ignores it or would override our options. Returns whether it did.
fn set(context: &SessionContext, set: &SetVariable) -> Result<bool> {
    let name = set.variable.to_lowercase();
    if session::door(context).is_limited() && !OPEN_SETTINGS.contains(&name.as_str()) {
        return Err(Error::LockedSetting { name, open: &OPEN_SETTINGS });
    }
    if let Some((name, instead)) = FIXED_SETTINGS.into_iter().find(|(fixed, _)| *fixed == name) {
        return Err(Error::FixedSetting { name: name.to_owned(), instead });
    }
    if let Some((_, most)) = LARGEST_SETTINGS.into_iter().find(|(limited, _)| *limited == name)
        && set.value.trim().parse().is_ok_and(|value: u128| value > most.into())
    {
        return Err(Error::Preamble(format!("SET {name} = {}: expected at most {most}", set.value)));
    }
    // The engine would then spill to another directory, in files of its own.
    let own = name == "datafusion.runtime.max_temp_directory_size";
    if own {
        let size = SessionContext::parse_capacity_limit(&name, &set.value)?;
        session::limit_temporary_files(context, size as u64);
    }
    Ok(own)
}

/// Runs a statement that precedes the query. Returns the table that it creates.
async fn run_preamble(context: &SessionContext, statement: Statement) -> Result<Option<Box<CreateExternalTable>>> {
    let allowed = match &statement {
        Statement::CreateExternalTable(_) => true,
        Statement::Statement(statement) => matches!(**statement, SqlStatement::Set(_)),
        _ => false,
    };
    if !allowed {
        let problem = format!("only SET and CREATE EXTERNAL TABLE may precede the query, found: {statement}");
        return Err(Error::Preamble(problem));
    }
    let mut state = context.state();
    if let Statement::CreateExternalTable(table) = &statement
        && !state.table_factories().contains_key(&table.file_type.to_uppercase())
    {
        return Err(Error::UnsupportedFormat(table.file_type.clone()));
    }
    let time_zone = &mut state.config_mut().options_mut().execution.time_zone;
    if matches!(statement, Statement::CreateExternalTable(_)) && time_zone.is_none() {
        // Without it, the engine would drop the zone of a TIMESTAMP WITH TIME ZONE.
        *time_zone = Some("UTC".to_owned());
    }
    let plan = state.statement_to_plan(statement).await?;
    let table = match &plan {
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(table)) => Some(table.clone()),
        _ => None,
    };
    let variable = match &plan {
        LogicalPlan::Statement(PlanStatement::SetVariable(variable)) => Some(variable.clone()),
        _ => None,
    };
    let done = variable.as_ref().map_or(Ok(false), |variable| set(context, variable))?;
    if !done {
        context.execute_logical_plan(plan).await?;
    }
    if variable.is_some_and(|variable| variable.variable == "datafusion.execution.time_zone") {
        let changed = tfr_engine::with_changed_time_zone(context.state());
        *context.state_ref().write() = changed;
    }
    Ok(table)
}

/// Whether a statement returns rows. With `explanations`, EXPLAIN of such a statement counts too: its rows can be
/// printed, but not written.
fn is_query(statement: &Statement, explanations: bool) -> bool {
    match statement {
        Statement::Statement(statement) => match **statement {
            SqlStatement::Query(_) => true,
            SqlStatement::ExplainTable { .. } => explanations,
            _ => false,
        },
        Statement::Explain(explain) => explanations && is_query(&explain.statement, explanations),
        _ => false,
    }
}
