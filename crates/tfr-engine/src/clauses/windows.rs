//! Named windows.
//!
//! The planner replaces `OVER w` in the SELECT list alone. In ORDER BY and QUALIFY it computes a plain aggregate
//! instead. It forgets the window `w` in `OVER (w ORDER BY a)`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, Ident, NamedWindowDefinition, NamedWindowExpr, WindowFrame, WindowSpec, WindowType,
};

use super::{Checked, order_by, refused};
use crate::syntax::{OwnExprs, Tree, visit_own_exprs};

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
pub fn inline(node: &mut dyn Tree, definitions: &[NamedWindowDefinition]) -> Checked {
    replace(node, definitions, true)
}

/// Replaces the names of windows in `OVER (w ...)`, but not in `OVER w`.
pub fn extend(node: &mut dyn Tree, definitions: &[NamedWindowDefinition]) -> Checked {
    replace(node, definitions, false)
}

fn replace(node: &mut dyn Tree, definitions: &[NamedWindowDefinition], whole: bool) -> Checked {
    each_expr(node, &mut |expr| match expr {
        Expr::Function(Function { over: Some(over), .. }) => match over {
            WindowType::NamedWindow(name) => {
                let spec = find(name, definitions)?;
                if whole {
                    *over = WindowType::WindowSpec(spec.clone());
                }
                Ok(())
            }
            WindowType::WindowSpec(spec) => resolve(spec, definitions),
        },
        _ => Ok(()),
    })
}

/// Rejects window functions in a clause that is evaluated before them.
pub fn reject(node: &mut dyn Tree, clause: &str) -> Checked {
    each_expr(node, &mut |expr| match expr {
        Expr::Function(Function { name, over: Some(_), .. }) => refused(
            format!("the window function {name} in {clause}"),
            "write the condition in QUALIFY, or compute the value in a subquery",
        ),
        _ => Ok(()),
    })
}

/// Calls `f` for the expressions of a part of a query, except for its subqueries, which have windows of their own.
fn each_expr(node: &mut dyn Tree, f: &mut dyn FnMut(&mut Expr) -> Checked) -> Checked {
    match visit_own_exprs(node, &mut Each(f)) {
        ControlFlow::Break(message) => Err(message),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Each<'a>(&'a mut dyn FnMut(&mut Expr) -> Checked);

impl OwnExprs for Each<'_> {
    fn enter(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        super::flow((self.0)(expr))
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
