//! Case-insensitive name resolution: a table or column matches regardless of case if only one fits.
//!
//! The session keeps identifiers as written, so that columns keep their case when they become features. If the engine
//! does not find a name exactly, [`plan`] corrects the statement where exactly one name differs only by case, and
//! plans again. Names in double quotes are not corrected. Nor are the column lists of `USING (...)` and `EXCEPT (...)`
//! and field names inside structs, because the engine's errors give no position for them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use arrow::datatypes::Schema;
use datafusion::common::{Column, SchemaError, Span, TableReference};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, ObjectNamePart, Query, Statement as SqlStatement,
    TableFactor, Value, VisitorMut,
};
use datafusion_tfrecord::similar;
use tfr_engine::Tree;
use tfr_files::FilesFunction;

use crate::error::{Error, Result};
use crate::feature_names;

/// Plans `statement`, correcting the case of its table and column names. Unnamed columns get the text of their
/// expressions.
pub async fn plan(context: &SessionContext, mut statement: Statement) -> Result<LogicalPlan> {
    if let Some(statement) = sql_mut(&mut statement) {
        correct_tables(context, statement)?;
    }
    let relations = relations(&mut statement);
    let mut named = statement.clone();
    // Not used if the query refers to inner columns by the engine's names.
    if sql_mut(&mut named).is_some_and(|statement| feature_names::name_inner(statement, &relations))
        && let Ok(plan) = plan_corrected(context, &mut named).await
    {
        return renamed(plan, &named, &relations);
    }
    let plan = plan_corrected(context, &mut statement).await?;
    renamed(plan, &statement, &relations)
}

fn renamed(plan: LogicalPlan, statement: &Statement, relations: &BTreeSet<String>) -> Result<LogicalPlan> {
    match statement {
        Statement::Statement(statement) => feature_names::rename(plan, statement, relations),
        _ => Ok(plan),
    }
}

/// Returns the names of all tables in `statement`.
fn relations(statement: &mut Statement) -> BTreeSet<String> {
    let Relations { used, full, ctes, aliases, .. } = Relations::of(statement);
    let full = full.into_iter().map(|table| table.table().to_owned());
    used.into_iter().map(|table| table.value).chain(full).chain(ctes).chain(aliases).collect()
}

async fn plan_corrected(context: &SessionContext, statement: &mut Statement) -> Result<LogicalPlan> {
    loop {
        let error = match context.state().statement_to_plan(statement.clone()).await {
            Ok(plan) => return Ok(plan),
            Err(error) => error,
        };
        let known = KnownNames::of(context, statement).await;
        // Every round puts at least one name in quotes, so this ends.
        let corrected = sql_mut(statement).is_some_and(|statement| correct_columns(statement, &error, &known));
        if !corrected {
            return Err(error.into());
        }
    }
}

/// Returns the quoted names by which `statement` refers to paths: `'events/*.parquet'`.
pub fn quoted_tables(statement: &mut Statement) -> BTreeSet<String> {
    let mut relations = Relations::of(statement);
    relations.used.retain(|table| table.quote_style.is_some() && !relations.ctes.contains(&table.value));
    relations.used.into_iter().map(|table| table.value).collect()
}

/// Returns the names of tables in the catalog `catalog`, and writes them in lower case: a metastore has no others.
pub fn tables_in(statement: &mut Statement, catalog: &str) -> BTreeSet<TableReference> {
    let mut tables = TablesIn { catalog, found: BTreeSet::new() };
    if let Some(statement) = sql_mut(statement) {
        let _ = statement.visit_mut(&mut tables);
    }
    tables.found
}

struct TablesIn<'a> {
    catalog: &'a str,
    found: BTreeSet<TableReference>,
}

impl VisitorMut for TablesIn<'_> {
    type Break = String;

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<String> {
        let TableFactor::Table { name, args: None, .. } = table else { return ControlFlow::Continue(()) };
        let mut idents: Option<Vec<_>> = name.0.iter_mut().map(ident_mut).collect();
        if let Some([catalog, schema, table]) = idents.as_deref_mut()
            && catalog.value.eq_ignore_ascii_case(self.catalog)
        {
            for part in [&mut **catalog, &mut **schema, &mut **table] {
                *part = quoted(&part.value.to_lowercase(), part);
            }
            self.found.insert(TableReference::full(&*catalog.value, &*schema.value, &*table.value));
        }
        ControlFlow::Continue(())
    }
}

fn ident_mut(part: &mut ObjectNamePart) -> Option<&mut Ident> {
    match part {
        ObjectNamePart::Identifier(ident) => Some(ident),
        ObjectNamePart::Function(_) => None,
    }
}

/// Replaces the quoted path `from` by another quoted name.
pub fn rename_quoted(statement: &mut Statement, from: &str, to: &str) {
    if let Some(statement) = sql_mut(statement) {
        let _ = statement.visit_mut(&mut RenameTable { from, to, quoted: true });
    }
}

/// Returns the arguments of the table function `files` in `statement`: paths, URLs and patterns.
pub fn listed_files(statement: &mut Statement) -> BTreeSet<String> {
    Relations::of(statement).files
}

fn sql_mut(statement: &mut Statement) -> Option<&mut SqlStatement> {
    match statement {
        Statement::Statement(statement) => Some(statement),
        Statement::Explain(explain) => sql_mut(&mut explain.statement),
        _ => None,
    }
}

fn correct_tables(context: &SessionContext, statement: &mut SqlStatement) -> Result<()> {
    let mut relations = Relations::default();
    let _ = statement.visit_mut(&mut relations);
    if let Some(name) = relations.qualified.iter().find(|name| !is_table(context, name)) {
        return Err(Error::UnquotedPath { name: name.to_string() });
    }
    let registered = registered_tables(context);
    let known: BTreeSet<_> = registered.iter().chain(&relations.ctes).cloned().collect();
    for table in relations.used.iter().filter(|table| table.quote_style.is_none() && !known.contains(&table.value)) {
        let Some(found) = sole_match(&table.value, &known).map(str::to_owned) else {
            return Err(Error::UnknownTable {
                name: table.value.clone(),
                similar: similar(&table.value, known.iter().map(String::as_str)).map(str::to_owned),
                known: registered.into_iter().collect(),
            });
        };
        let mut rename = RenameTable { from: &table.value, to: &found, quoted: false };
        let _ = statement.visit_mut(&mut rename);
    }
    Ok(())
}

/// Returns the tables in the session's default schema, where `--table` and `CREATE EXTERNAL TABLE` register them.
fn registered_tables(context: &SessionContext) -> BTreeSet<String> {
    let state = context.state();
    let defaults = &state.config_options().catalog;
    context
        .catalog(&defaults.default_catalog)
        .and_then(|catalog| catalog.schema(&defaults.default_schema))
        .map(|schema| schema.table_names().into_iter().collect())
        .unwrap_or_default()
}

/// Whether a dotted name is the name of a table.
fn is_table(context: &SessionContext, name: &TableReference) -> bool {
    context.table_exist(name.clone()).unwrap_or_default()
}

/// All names that a statement could refer to. Inside a subquery, the engine does not list the names of the outer query
/// as valid.
struct KnownNames {
    relations: BTreeSet<String>,
    columns: BTreeSet<String>,
}

impl KnownNames {
    async fn of(context: &SessionContext, statement: &mut Statement) -> Self {
        let Relations { used, full, ctes, aliases, .. } = Relations::of(statement);
        let mut columns = BTreeSet::new();
        let bare = used.iter().map(|table| TableReference::bare(table.value.as_str()));
        for table in bare.chain(full) {
            if let Ok(table) = context.table_provider(table).await {
                columns.extend(table.schema().fields().iter().map(|field| field.name().clone()));
            }
        }
        let relations = used.into_iter().map(|table| table.value).chain(ctes).chain(aliases).collect();
        Self { relations, columns }
    }

    fn find(&self, typed: &Column) -> Option<Column> {
        let name = sole_match(&typed.name, &self.columns)?;
        let relation = match &typed.relation {
            Some(relation) => Some(TableReference::bare(sole_match(relation.table(), &self.relations)?)),
            None => None,
        };
        Some(Column::new(relation, name))
    }
}

/// The relations of a statement by the number of parts in their names, the arguments of `files`, the common table
/// expressions, and the aliases.
#[derive(Default)]
struct Relations {
    used: Vec<Ident>,
    qualified: Vec<TableReference>,
    /// Names with a catalog, in quotes or not.
    full: Vec<TableReference>,
    files: BTreeSet<String>,
    ctes: BTreeSet<String>,
    aliases: BTreeSet<String>,
}

impl Relations {
    fn of(statement: &mut Statement) -> Self {
        let mut relations = Self::default();
        if let Some(statement) = sql_mut(statement) {
            let _ = statement.visit_mut(&mut relations);
            if let SqlStatement::ExplainTable { table_name, .. } = statement {
                relations.used.extend(sole_part(table_name).cloned());
            }
        }
        relations
    }
}

impl VisitorMut for Relations {
    type Break = String;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<String> {
        if let Some(with) = &query.with {
            self.ctes.extend(with.cte_tables.iter().map(|cte| cte.alias.name.value.clone()));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<String> {
        let alias = match table {
            // A table with arguments is a function.
            TableFactor::Table { name, args: None, alias, .. } => {
                self.used.extend(sole_part(name).cloned());
                self.qualified.extend(unquoted_parts(name));
                if let [Some(catalog), Some(schema), Some(table)] =
                    name.0.iter().map(|part| part.as_ident()).collect::<Vec<_>>()[..]
                {
                    self.full.push(TableReference::full(&*catalog.value, &*schema.value, &*table.value));
                }
                alias
            }
            TableFactor::Table { name, args: Some(args), alias, .. } => {
                if sole_part(name).is_some_and(|name| name.value == FilesFunction::NAME) {
                    self.files.extend(args.args.iter().filter_map(text).map(str::to_owned));
                }
                alias
            }
            TableFactor::Derived { alias, .. } => alias,
            _ => &None,
        };
        self.aliases.extend(alias.iter().map(|alias| alias.name.value.clone()));
        ControlFlow::Continue(())
    }
}

/// Returns an argument that is a string literal.
fn text(argument: &FunctionArg) -> Option<&str> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// Returns a name without catalog and schema.
fn sole_part(name: &ObjectName) -> Option<&Ident> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(ident)] => Some(ident),
        _ => None,
    }
}

/// Returns an unquoted name with a schema, and perhaps a catalog.
fn unquoted_parts(name: &ObjectName) -> Option<TableReference> {
    let parts: Option<Vec<_>> = name
        .0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) if ident.quote_style.is_none() => Some(ident.value.as_str()),
            _ => None,
        })
        .collect();
    match parts?.as_slice() {
        [schema, table] => Some(TableReference::partial(*schema, *table)),
        [catalog, schema, table] => Some(TableReference::full(*catalog, *schema, *table)),
        _ => None,
    }
}

struct RenameTable<'a> {
    from: &'a str,
    to: &'a str,
    /// Whether the name is quoted now.
    quoted: bool,
}

impl VisitorMut for RenameTable<'_> {
    type Break = String;

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<String> {
        if let [ObjectNamePart::Identifier(ident)] = relation.0.as_mut_slice()
            && ident.quote_style.is_some() == self.quoted
            && ident.value == self.from
        {
            *ident = quoted(self.to, ident);
        }
        ControlFlow::Continue(())
    }
}

/// Corrects the columns that `error` reports as missing. Returns whether it corrected any.
fn correct_columns(statement: &mut SqlStatement, error: &DataFusionError, known: &KnownNames) -> bool {
    let mut corrected = false;
    for missing in missing_columns(error) {
        let Some(found) = missing.sole_match().cloned().or_else(|| known.find(missing.typed)) else { continue };
        statement.each_expr(&mut |expr| corrected |= missing.correct(expr, &found));
    }
    corrected
}

/// A column that the engine did not find.
struct Missing<'a> {
    typed: &'a Column,
    valid: &'a [Column],
    /// Its position in the text, or `None` for all positions if the engine does not report it.
    span: Option<Span>,
}

fn missing_columns(error: &DataFusionError) -> Vec<Missing<'_>> {
    error
        .iter()
        .filter_map(|error| {
            let mut link: &(dyn std::error::Error + 'static) = error;
            loop {
                if let Some(SchemaError::FieldNotFound { field, valid_fields }) = link.downcast_ref() {
                    let span = error.diagnostic().and_then(|diagnostic| diagnostic.span);
                    let span = span.or_else(|| field.spans().first());
                    return Some(Missing { typed: field, valid: valid_fields, span });
                }
                link = link.source()?;
            }
        })
        .collect()
}

impl Missing<'_> {
    /// Returns the one valid column that differs only by case. Columns of the same name in several tables count as
    /// one: the engine will report the name as ambiguous, or know that a join made them equal.
    fn sole_match(&self) -> Option<&Column> {
        let relation = |column: &Column| column.relation.as_ref().map(|relation| relation.table().to_lowercase());
        let same_relation = |column: &Column| self.typed.relation.is_none() || relation(column) == relation(self.typed);
        let name = self.typed.name.to_lowercase();
        let mut fitting =
            self.valid.iter().filter(|column| same_relation(column) && column.name.to_lowercase() == name);
        let first = fitting.next()?;
        let same = |other: &Column| {
            other.name == first.name && (self.typed.relation.is_none() || other.relation == first.relation)
        };
        (fitting.all(same) && self.differs(first)).then_some(first)
    }

    fn differs(&self, found: &Column) -> bool {
        self.typed.name != found.name || (self.typed.relation.is_some() && self.typed.relation != found.relation)
    }

    /// Replaces the missing column by `found`, if `expr` is at its position.
    fn correct(&self, expr: &mut Expr, found: &Column) -> bool {
        match expr {
            Expr::Identifier(name) if self.typed.relation.is_none() && self.is_at(name) && self.is_typed(name) => {
                *name = quoted(&found.name, name);
                true
            }
            Expr::CompoundIdentifier(parts) => match (parts.as_mut_slice(), &self.typed.relation, &found.relation) {
                ([table, name], Some(typed), Some(relation))
                    if self.is_at(table) && table.value == typed.table() && self.is_typed(name) =>
                {
                    if table.quote_style.is_none() {
                        *table = quoted(relation.table(), table);
                    }
                    *name = quoted(&found.name, name);
                    true
                }
                _ => false,
            },
            _ => false,
        }
    }

    fn is_typed(&self, name: &Ident) -> bool {
        name.quote_style.is_none() && name.value == self.typed.name
    }

    fn is_at(&self, first: &Ident) -> bool {
        self.span.is_none_or(|span| Span::try_from_sqlparser_span(first.span).is_some_and(|at| at.start == span.start))
    }
}

/// Returns `name` quoted, at the position of `replaced`.
fn quoted(name: &str, replaced: &Ident) -> Ident {
    Ident::with_quote_and_span('"', replaced.span, name)
}

/// Returns the column of `schema` that `typed` names: an exact match, or the only one that differs only by case.
pub fn column(typed: &str, schema: &Schema) -> String {
    let known: BTreeSet<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let found = if known.contains(typed) { None } else { sole_match(typed, &known) };
    found.unwrap_or(typed).to_owned()
}

/// Returns the only known name that differs from `name` at most by case.
fn sole_match<'a>(name: &str, known: &'a BTreeSet<String>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let mut fitting = known.iter().filter(|known| known.to_lowercase() == name);
    let first = fitting.next()?;
    fitting.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests;
