//! [`Query`]: SQL text to a plan, by way of the tables it needs.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::{Statistics, TableReference};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext, displayable};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use tfr_inputs::{InputOptions, open_locations, open_table};

use crate::cli::Cli;
use crate::error::{Error, Result};
use crate::names;

/// A planned query.
pub struct Query {
    /// Its text, without the statements before it.
    pub text: String,
    /// What it means.
    pub logical: LogicalPlan,
    /// How it runs.
    pub physical: Arc<dyn ExecutionPlan>,
    /// What it may read: paths and URLs as the user wrote them.
    pub inputs: BTreeSet<String>,
}

impl Query {
    /// Parses `text`, registers the tables, runs the statements before the query and plans it.
    pub async fn plan(context: &SessionContext, cli: &Cli, text: &str) -> Result<Self> {
        let mut statements = DFParserBuilder::new(text).build()?.parse_statements()?;
        let mut query = statements.pop_back().ok_or(Error::EmptyQuery)?;
        if !is_query(&query, cli.output.out.is_none()) {
            return Err(Error::NotAQuery(query.to_string()));
        }
        let mut inputs = BTreeSet::new();
        for table in &cli.tables {
            let opened = open_table(&context.state(), table).await?;
            context.register_table(TableReference::bare(table.name.as_str()), opened)?;
            inputs.extend(table.locations.iter().cloned());
        }
        for statement in statements {
            inputs.extend(run_preamble(context, statement).await?);
        }
        for path in names::quoted_tables(&mut query) {
            let name = TableReference::bare(path.as_str());
            if !context.table_exist(name.clone())? {
                let locations = [path];
                let opened = open_locations(&context.state(), &locations, &InputOptions::default(), None).await?;
                context.register_table(name, opened)?;
                inputs.extend(locations);
            }
        }
        let text = query.to_string();
        let logical = names::plan(context, query).await?;
        let physical = context.state().create_physical_plan(&logical).await?;
        log::info!("plan:\n{}", displayable(physical.as_ref()).indent(false));
        Ok(Self { text, logical, physical, inputs })
    }

    /// Whether the user asked for an order: a sort decides it, and nothing above mixes the rows again.
    pub fn is_ordered(&self) -> bool {
        fn sorted(plan: &LogicalPlan) -> bool {
            match plan {
                LogicalPlan::Sort(_) => true,
                LogicalPlan::Limit(limit) => sorted(&limit.input),
                LogicalPlan::Projection(projection) => sorted(&projection.input),
                LogicalPlan::SubqueryAlias(alias) => sorted(&alias.input),
                _ => false,
            }
        }
        sorted(&self.logical)
    }

    /// What planning knows of the rows.
    pub fn statistics(&self) -> Result<Arc<Statistics>> {
        Ok(StatisticsContext::new().compute(self.physical.as_ref(), &StatisticsArgs::new())?)
    }
}

/// Runs a statement that stands before the query. Returns the inputs that it names.
async fn run_preamble(context: &SessionContext, statement: Statement) -> Result<Vec<String>> {
    let allowed = match &statement {
        Statement::CreateExternalTable(_) => true,
        Statement::Statement(statement) => matches!(**statement, SqlStatement::Set(_)),
        _ => false,
    };
    if !allowed {
        return Err(Error::Preamble(statement.to_string()));
    }
    let state = context.state();
    if let Statement::CreateExternalTable(table) = &statement
        && !state.table_factories().contains_key(&table.file_type.to_uppercase())
    {
        return Err(Error::UnsupportedFormat(table.file_type.clone()));
    }
    let plan = state.statement_to_plan(statement).await?;
    let inputs = match &plan {
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(table)) => table.locations.clone(),
        _ => Vec::new(),
    };
    context.execute_logical_plan(plan).await?;
    Ok(inputs)
}

/// Whether a statement asks for rows; explanations of such a statement are rows too, if not ones to write.
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
