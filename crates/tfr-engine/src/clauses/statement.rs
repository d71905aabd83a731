//! Statements, and the parts of those that are no query.
//!
//! The planner destructures CREATE TABLE and CREATE VIEW itself, and rejects what it does not read, apart from the
//! fields here.

use datafusion::sql::parser::{
    CopyToSource, CopyToStatement, CreateExternalTable, ExplainStatement, ResetStatement, Statement,
};
use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, ColumnOptionDef, CreateView, DescribeAlias, ObjectName, Statement as SqlStatement,
    ViewColumnDef,
};

use super::{Checked, Clauses, expressions, refused};

pub fn check(statement: &mut Statement, clauses: &mut Clauses) -> Checked {
    match statement {
        Statement::Statement(statement) => {
            check_sql(statement)?;
            clauses.visit(statement.as_mut())
        }
        Statement::CopyTo(CopyToStatement { source, target: _, partitioned_by: _, stored_as: _, options: _ }) => {
            match source {
                CopyToSource::Query(query) => clauses.visit(query.as_mut()),
                CopyToSource::Relation(_) => Ok(()),
            }
        }
        Statement::Explain(ExplainStatement { options: _, statement }) => check(statement, clauses),
        Statement::CreateExternalTable(table) => check_external_table(table),
        Statement::Reset(ResetStatement::Variable(_)) => Ok(()),
    }
}

/// Other statements are planned without a query, or rejected.
fn check_sql(statement: &mut SqlStatement) -> Checked {
    match statement {
        SqlStatement::ExplainTable {
            describe_alias: _,
            hive_format: Some(format),
            has_table_keyword: _,
            table_name,
        } => refused(format!("DESCRIBE {format}"), format!("write DESCRIBE {table_name}")),
        SqlStatement::ExplainTable { describe_alias: _, hive_format: None, has_table_keyword: _, table_name: _ } => {
            Ok(())
        }
        SqlStatement::Explain {
            describe_alias,
            analyze,
            verbose,
            query_plan,
            estimate,
            statement: _,
            format,
            options,
        } => {
            if *query_plan || *estimate || options.is_some() {
                return refused("EXPLAIN with these options", "write EXPLAIN or EXPLAIN ANALYZE");
            }
            let describes = matches!(describe_alias, DescribeAlias::Describe | DescribeAlias::Desc);
            match describes && (*analyze || *verbose || format.is_some()) {
                true => refused("DESCRIBE with options", "write EXPLAIN"),
                false => Ok(()),
            }
        }
        SqlStatement::CreateTable(table) => table.columns.iter_mut().try_for_each(check_column),
        SqlStatement::CreateView(CreateView {
            or_alter,
            or_replace: _,
            materialized: _,
            secure,
            name,
            name_before_not_exists: _,
            columns,
            query: _,
            options: _,
            cluster_by: _,
            comment: _,
            with_no_schema_binding: _,
            if_not_exists: _,
            temporary: _,
            copy_grants: _,
            to: _,
            params,
        }) => {
            if *or_alter || *secure || params.is_some() {
                return refused(format!("CREATE VIEW {name} with these options"), "leave them out");
            }
            for ViewColumnDef { name: column, data_type, options: _ } in columns {
                if let Some(data_type) = data_type {
                    return refused(
                        format!("the type {data_type} of a view's column {column}"),
                        "cast it in the query",
                    );
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn check_external_table(table: &mut CreateExternalTable) -> Checked {
    let CreateExternalTable {
        name,
        columns,
        file_type: _,
        locations: _,
        table_partition_cols: _,
        // Rejected by the factory of tables.
        order_exprs: _,
        if_not_exists: _,
        or_replace: _,
        // A table lives as long as its session.
        temporary: _,
        unbounded: _,
        options: _,
        constraints,
    } = table;
    if let Some(constraint) = constraints.first() {
        return no_constraint(name, &constraint.to_string());
    }
    for column in columns {
        for ColumnOptionDef { name: _, option } in &column.options {
            if matches!(
                option,
                ColumnOption::PrimaryKey(_)
                    | ColumnOption::Unique(_)
                    | ColumnOption::ForeignKey(_)
                    | ColumnOption::Check(_)
                    | ColumnOption::Default(_)
            ) {
                return no_constraint(name, &format!("{} {option}", column.name));
            }
        }
        check_column(column)?;
    }
    Ok(())
}

fn no_constraint(table: &ObjectName, constraint: &str) -> Checked {
    refused(format!("CREATE EXTERNAL TABLE {table}: {constraint}"), "leave it out: files are read as they are")
}

fn check_column(column: &mut ColumnDef) -> Checked {
    let ColumnDef { name, data_type, options } = column;
    expressions::check_type(data_type)?;
    for ColumnOptionDef { name: _, option } in options {
        match option {
            ColumnOption::Null
            | ColumnOption::NotNull
            | ColumnOption::Default(_)
            | ColumnOption::Comment(_)
            // The planner makes constraints of these.
            | ColumnOption::PrimaryKey(_)
            | ColumnOption::Unique(_)
            | ColumnOption::ForeignKey(_)
            | ColumnOption::Check(_) => {}
            ColumnOption::Materialized(_)
            | ColumnOption::Ephemeral(_)
            | ColumnOption::Alias(_)
            | ColumnOption::Generated {
                generated_as: _,
                sequence_options: _,
                generation_expr: _,
                generation_expr_mode: _,
                generated_keyword: _,
            }
            | ColumnOption::Identity(_) => {
                return refused(format!("the column {name} {option}"), "compute it in the query");
            }
            ColumnOption::DialectSpecific(_)
            | ColumnOption::CharacterSet(_)
            | ColumnOption::Collation(_)
            | ColumnOption::OnUpdate(_)
            | ColumnOption::Options(_)
            | ColumnOption::OnConflict(_)
            | ColumnOption::Policy(_)
            | ColumnOption::Tags(_)
            | ColumnOption::Srid(_)
            | ColumnOption::Invisible => return refused(format!("the column {name} {option}"), "leave the option out"),
        }
    }
    Ok(())
}
