//! Corrects query results: fixes the engine where its answers are known to be wrong, and rejects constructs that it
//! cannot correct, by name.
//!
//! [`exact`] installs all corrections in a session. Parser errors are corrected earlier: parse with [`parse`], not
//! with `SessionContext::sql`.

mod aggregates;
mod bytes;
mod casts;
mod choices;
mod clauses;
mod clock;
mod comparable;
mod constants;
mod corrected;
mod depth;
mod dialect;
mod dictionaries;
mod expressions;
mod file_names;
mod filter_pushdown;
mod global_aggregates;
mod group_keys;
mod grouping_sets;
mod guarding_cases;
mod guarding_filters;
mod hidden;
mod in_lists;
mod interval_parts;
mod json;
mod known_functions;
mod leaf_expressions;
mod limits;
mod lists;
mod literals;
mod memory;
mod moments;
mod moving;
mod nested_loops;
mod no_keys;
mod null_equality;
mod number_tokens;
mod numbers;
mod opaque;
mod order_names;
mod orders;
mod overflow;
mod own_names;
mod patterns;
mod percentiles;
mod projections;
mod refused;
mod repeated;
mod runs;
mod sample;
mod scopes;
mod set_operations;
mod subqueries;
mod sums;
mod syntax;
mod text_arguments;
mod text_casts;
mod text_lengths;
mod time_zones;
mod timestamps;
mod whole_windows;
mod zone_offsets;
mod zoned_literals;

use std::sync::Arc;

use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::optimizer::extract_leaf_expressions::{ExtractLeafExpressions, PushDownLeafProjections};
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion_expr::ScalarUDF;

use leaf_expressions::StableLeafExpressions;

pub use clock::at_time;
pub use dialect::{SqlDialect, parse, parse_all, parse_tokens};
pub use memory::{Bounds, ResultTooLarge, RowTooLong, within};
pub use numbers::literals::DoubleLiteral;
pub use orders::is_ordered;
pub use own_names::own_name_argument;
pub use syntax::Tree;
pub use text_lengths::VarcharCast;

/// Installs the corrections in a session that has the engine's default features.
///
/// ```
/// # use datafusion::execution::SessionStateBuilder;
/// # use datafusion::prelude::SessionContext;
/// let builder = SessionStateBuilder::new().with_default_features();
/// let context = SessionContext::new_with_state(tfr_engine::exact(builder).build());
/// ```
pub fn exact(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let checked = overflow::CheckedIntegers::default();
    let config = builder.config().get_or_insert_default();
    config.options_mut().sql_parser.enable_subquery_sort_elimination = false;
    config.options_mut().sql_parser.parse_float_as_decimal = true;
    let zoned_types = time_zones::ZonedTypes::new(config.options());
    let mut builder = builder
        .with_type_planner(Arc::new(zoned_types))
        .with_relation_planners(vec![Arc::new(no_keys::HideUnnestedKeys), Arc::new(sample::TableSamples)])
        .with_optimizer_rules(optimizer_rules())
        .with_physical_optimizer_rules(physical_optimizer_rules());
    known_functions::keep_known(&mut builder);
    let functions = builder.scalar_functions().get_or_insert_default();
    // Another name of a function of the engine, which a later one may replace.
    functions.insert(0, VarcharCast::function());
    functions.push(Arc::new(ScalarUDF::new_from_impl(time_zones::AtTimeZone::default())));
    functions.push(comparable::Comparable::function());
    functions.push(Arc::new(ScalarUDF::new_from_impl(interval_parts::DatePart::default())));
    functions.extend([opaque::unordered_function(), opaque::no_key_function(), opaque::cast_function()]);
    functions.push(order_names::mark_function());
    functions.push(own_names::function());
    functions.extend(checked.functions());
    functions.extend(numbers::functions());
    functions.extend(hidden::functions());
    functions.extend(memory::padding());
    functions.extend(bytes::functions());
    functions.extend(choices::functions());
    functions.extend(clock::functions());
    functions.extend(json::functions());
    functions.extend(lists::functions());
    functions.extend(lists::internal_functions());
    functions.extend(patterns::functions());
    functions.push(patterns::match_function());
    functions.extend(text_casts::functions());
    functions.extend(timestamps::functions());
    numbers::lists::with_numbers(functions);
    functions.push(zone_offsets::InZoneTable::function());
    // The first planner that handles an expression wins.
    let planners = builder.expr_planners().get_or_insert_default();
    planners.insert(0, Arc::new(interval_parts::Extract::default()));
    planners.insert(1, Arc::new(numbers::lists::ListOperators));
    planners.insert(0, Arc::new(bytes::BytesPlanner));
    // It plans no expression, and so hides no other planner.
    planners.insert(0, Arc::new(numbers::TimesOfOneUnit));
    let aggregates = builder.aggregate_functions().get_or_insert_default();
    aggregates.extend(aggregates::exact_aggregates());
    aggregates.extend(sums::exact_sums());
    aggregates.extend(moments::exact_moments());
    aggregates.push(percentiles::exact_percentile());
    builder.with_analyzer_rules(analyzer_rules(checked))
}

/// Returns the session after a change of its setting `datafusion.execution.time_zone`, which `TIMESTAMP WITH TIME
/// ZONE` follows.
pub fn with_changed_time_zone(state: SessionState) -> SessionState {
    let zoned_types = time_zones::ZonedTypes::new(state.config_options());
    SessionStateBuilder::new_from_existing(state).with_type_planner(Arc::new(zoned_types)).build()
}

/// Returns our rules, with the engine's rules, which coerce types, between them.
fn analyzer_rules(checked: overflow::CheckedIntegers) -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = Analyzer::new().rules;
    rules.splice(0..0, ours_before_coercion());
    rules.insert(0, Arc::new(file_names::FileNamesAtScans));
    rules.push(Arc::new(refused::RefusedConstructs));
    rules.push(Arc::new(subqueries::Subqueries));
    rules.push(Arc::new(no_keys::NoKeysOfJoins));
    rules.push(Arc::new(dictionaries::PlainDictionaries));
    rules.push(Arc::new(lists::OrderedLists));
    rules.push(Arc::new(hidden::HideValues));
    // After the rules that create casts.
    rules.push(Arc::new(casts::ExactCasts::default()));
    // After the rules that create comparisons, groups and sums.
    rules.push(Arc::new(comparable::ComparableValues::default()));
    rules.push(Arc::new(checked));
    // After all rules that create casts.
    rules.push(Arc::new(text_casts::CheckTextCasts::default()));
    rules.push(Arc::new(guarding_cases::GuardingCases));
    rules
}

/// Rules that see the plan as written in the query.
fn ours_before_coercion() -> [Arc<dyn AnalyzerRule + Send + Sync>; 15] {
    let corrected = bytes::functions().into_iter().chain(lists::functions());
    [
        // Before all rules that copy the plan.
        Arc::new(repeated::NoRepeatedVariation),
        Arc::new(orders::OrdersAroundSubqueries),
        Arc::new(orders::EffectiveSorts),
        Arc::new(order_names::OrderNames),
        Arc::new(own_names::OwnNames),
        Arc::new(corrected::CorrectedCalls::new(corrected)),
        Arc::new(text_arguments::TextArguments),
        Arc::new(patterns::ExactPatterns),
        Arc::new(no_keys::HideUnnestedKeys),
        Arc::new(runs::PlainOperands),
        Arc::new(comparable::FramesOfGroups),
        Arc::new(group_keys::ComputedKeys),
        Arc::new(set_operations::NumberedCopies),
        Arc::new(numbers::ExactOperands::default()),
        Arc::new(timestamps::ExactTimestamps::default()),
    ]
}

/// Returns the engine's rules, with ours before the rules that they correct.
fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    for rule in &mut rules {
        match rule.name() {
            "extract_equijoin_predicate" => *rule = Arc::new(null_equality::KeysOfOneKind::default()),
            "push_down_filter" => *rule = Arc::new(global_aggregates::FiltersAboveGlobalAggregates::default()),
            "eliminate_cross_join" => *rule = Arc::new(null_equality::CrossJoinsOfOneKind::default()),
            "extract_leaf_expressions" => *rule = Arc::new(StableLeafExpressions(ExtractLeafExpressions::new())),
            "push_down_leaf_projections" => *rule = Arc::new(StableLeafExpressions(PushDownLeafProjections::new())),
            "optimize_projections" => *rule = Arc::new(projections::UnequalProjections::default()),
            _ => {}
        }
    }
    // The engine computes equal expressions once, after simplifying them.
    let simplified = rules.iter().position(|rule| rule.name() == "simplify_expressions").map_or(0, |place| place + 1);
    rules.insert(simplified, Arc::new(zoned_literals::ZonedLiterals::default()));
    let push_down = rules.iter().position(|rule| rule.name() == "filters_above_global_aggregates").unwrap_or_default();
    rules.insert(push_down, Arc::new(literals::LiteralsOnTheRight));
    let simplify = rules.iter().position(|rule| rule.name() == "simplify_expressions").unwrap_or_default();
    rules.insert(simplify, Arc::new(in_lists::MergeInLists));
    rules.insert(simplify, Arc::new(patterns::MatchesOfAny));
    rules
}

/// Returns the engine's rules, with ours before or in place of the rules that they correct.
fn physical_optimizer_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    for rule in &mut rules {
        match rule.name() {
            "FilterPushdown" => *rule = Arc::new(filter_pushdown::UnambiguousFilterPushdown::new()),
            "FilterPushdown(Post)" => {
                *rule = Arc::new(filter_pushdown::UnambiguousFilterPushdown::new_post_optimization());
            }
            "EnsureRequirements" => *rule = Arc::new(limits::LimitsInPlace::default()),
            "ProjectionPushdown" => *rule = Arc::new(guarding_filters::ProjectionsAboveFilters::default()),
            "LimitAggregation" => *rule = Arc::new(limits::WholeAggregates),
            _ => {}
        }
    }
    rules.insert(0, Arc::new(grouping_sets::UnorderedGroupingSets::default()));
    rules.insert(1, Arc::new(constants::ConstantsOfOneSide::default()));
    rules.push(Arc::new(lists::WholeSorts));
    rules.push(Arc::new(whole_windows::WholeWindows));
    // After all rules that recognize the engine's join.
    rules.push(Arc::new(nested_loops::NestedLoopsInMemory));
    rules
}
