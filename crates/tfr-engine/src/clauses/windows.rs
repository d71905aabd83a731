//! Named windows.
//!
//! The planner replaces `OVER w` in the SELECT list alone. In ORDER BY and QUALIFY it computes a plain aggregate
//! instead. It forgets the window `w` in `OVER (w ORDER BY a)`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, Ident, NamedWindowDefinition, NamedWindowExpr, Query, VisitMut, VisitorMut, WindowFrame,
    WindowSpec, WindowType,
};

use super::{Checked, order_by, refused};

/// Resolves the windows that definitions refer to.
pub fn define(definitions: &mut [NamedWindowDefinition]) -> Checked {
    for place in 0..definitions.len() {
        let Some((defined, [NamedWindowDefinition(_, window), ..])) = definitions.split_at_mut_checked(place) else {
            continue;
        };
        match window {
            NamedWindowExpr::NamedWindow(base) => {
                *window = NamedWindowExpr::WindowSpec(find(base, defined)?.clone());
            }
            NamedWindowExpr::WindowSpec(spec) => resolve(spec, defined)?,
        }
    }
    Ok(())
}

/// Replaces the names of windows in a part of a query by their definitions.
pub fn inline<T: VisitMut>(node: &mut T, definitions: &[NamedWindowDefinition]) -> Checked {
    replace(node, definitions, true)
}

/// Replaces the names of windows in `OVER (w ...)`, but not in `OVER w`.
pub fn extend<T: VisitMut>(node: &mut T, definitions: &[NamedWindowDefinition]) -> Checked {
    replace(node, definitions, false)
}

fn replace<T: VisitMut>(node: &mut T, definitions: &[NamedWindowDefinition], whole: bool) -> Checked {
    match node.visit(&mut Windows { definitions, whole, queries: 0 }) {
        ControlFlow::Break(message) => Err(message),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Windows<'a> {
    definitions: &'a [NamedWindowDefinition],
    whole: bool,
    /// The number of subqueries around the current node. They have windows of their own.
    queries: usize,
}

impl VisitorMut for Windows<'_> {
    type Break = String;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<String> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<String> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        let Expr::Function(Function { over: Some(over), .. }) = expr else { return ControlFlow::Continue(()) };
        if self.queries > 0 {
            return ControlFlow::Continue(());
        }
        super::flow(match over {
            WindowType::NamedWindow(name) => find(name, self.definitions).map(|spec| {
                if self.whole {
                    *over = WindowType::WindowSpec(spec.clone());
                }
            }),
            WindowType::WindowSpec(spec) => resolve(spec, self.definitions),
        })
    }
}

fn find<'a>(name: &Ident, definitions: &'a [NamedWindowDefinition]) -> Checked<&'a WindowSpec> {
    let found = definitions.iter().find(|NamedWindowDefinition(defined, _)| defined.value == name.value);
    match found {
        Some(NamedWindowDefinition(_, NamedWindowExpr::WindowSpec(spec))) => Ok(spec),
        _ => Err(format!("the window {name} is not defined; write WINDOW {name} AS (PARTITION BY a ORDER BY b)")),
    }
}

/// Adds the parts of the window that `spec` extends.
fn resolve(spec: &mut WindowSpec, definitions: &[NamedWindowDefinition]) -> Checked {
    let Some(name) = spec.window_name.take() else { return Ok(()) };
    let base = find(&name, definitions)?;
    let twice = |clause: &str| {
        refused(format!("{clause} of a window that extends {name}, which has one,"), "write the whole window")
    };
    if !spec.partition_by.is_empty() {
        return twice("PARTITION BY");
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return twice("ORDER BY");
    }
    if base.window_frame.is_some() {
        return refused(format!("a window that extends {name}, which has a frame,"), "write the whole window");
    }
    spec.partition_by = base.partition_by.clone();
    if spec.order_by.is_empty() {
        spec.order_by = base.order_by.clone();
    }
    Ok(())
}

/// Checks a window, after the names in it have been replaced.
pub fn check(window: &WindowType) -> Checked {
    match window {
        // The planner replaces names in the SELECT list, which were checked there.
        WindowType::NamedWindow(_) => Ok(()),
        WindowType::WindowSpec(WindowSpec { window_name, partition_by: _, order_by, window_frame }) => {
            if let Some(name) = window_name {
                return find(name, &[]).map(|_| ());
            }
            if let Some(WindowFrame { units: _, start_bound: _, end_bound: _ }) = window_frame {}
            order_by::check(order_by)
        }
    }
}
