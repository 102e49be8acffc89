//! The expressions of a source file that a mutant can change, by the offset that `cargo mutants` gives for the change.

use std::collections::HashMap;
use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, ExprBinary, ExprMatch, ExprStruct, ExprUnary};

#[derive(Default)]
pub(crate) struct Places {
    /// By where the operator begins.
    pub(crate) binary: HashMap<usize, Binary>,
    /// By where the operator begins.
    pub(crate) unary: HashMap<usize, Unary>,
    /// By where the arm begins.
    pub(crate) arms: HashMap<usize, MatchedArm>,
    /// By where the guard's expression begins.
    pub(crate) guards: HashMap<usize, Range<usize>>,
    /// By where the field begins.
    pub(crate) fields: HashMap<usize, FieldPlace>,
}

pub(crate) struct Binary {
    pub(crate) whole: Range<usize>,
    pub(crate) left: Range<usize>,
    pub(crate) right: Range<usize>,
}

pub(crate) struct Unary {
    pub(crate) whole: Range<usize>,
    pub(crate) operand: Range<usize>,
}

pub(crate) struct MatchedArm {
    pub(crate) whole_match: Range<usize>,
    pub(crate) pattern_end: usize,
    pub(crate) guard: Option<Range<usize>>,
}

pub(crate) struct FieldPlace {
    pub(crate) value: Range<usize>,
    pub(crate) name: Range<usize>,
    /// The struct that the other fields are taken from.
    pub(crate) base: Range<usize>,
}

impl Places {
    pub(crate) fn find(text: &str) -> syn::Result<Self> {
        let mut places = Self::default();
        places.visit_file(&syn::parse_file(text)?);
        Ok(places)
    }
}

impl<'ast> Visit<'ast> for Places {
    fn visit_expr_binary(&mut self, node: &'ast ExprBinary) {
        let binary = Binary {
            whole: range(node),
            left: range(&node.left),
            right: range(&node.right),
        };
        // `let` stands in a chain of conditions and nowhere else.
        if !has_let(&node.left) && !has_let(&node.right) {
            self.binary.insert(range(&node.op).start, binary);
        }
        visit::visit_expr_binary(self, node);
    }

    fn visit_expr_unary(&mut self, node: &'ast ExprUnary) {
        let unary = Unary {
            whole: range(node),
            operand: range(&node.expr),
        };
        self.unary.insert(unary.whole.start, unary);
        visit::visit_expr_unary(self, node);
    }

    fn visit_expr_match(&mut self, node: &'ast ExprMatch) {
        for arm in &node.arms {
            let guard = arm.guard.as_ref().map(|(_, guard)| range(guard));
            if let Some(guard) = &guard {
                self.guards.insert(guard.start, guard.clone());
            }
            let place = MatchedArm {
                whole_match: range(node),
                pattern_end: range(&arm.pat).end,
                guard,
            };
            self.arms.insert(range(arm).start, place);
        }
        visit::visit_expr_match(self, node);
    }

    fn visit_expr_struct(&mut self, node: &'ast ExprStruct) {
        for field in &node.fields {
            let Some(base) = &node.rest else { break };
            let place = FieldPlace {
                value: range(&field.expr),
                name: range(&field.member),
                base: range(base),
            };
            if field.colon_token.is_some() {
                self.fields.insert(range(field).start, place);
            }
        }
        visit::visit_expr_struct(self, node);
    }
}

fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _other => false,
    }
}

fn range(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}
