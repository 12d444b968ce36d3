//! Finds the calls in the body of a function.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;
use syn::{Block, Expr, ExprCall, ExprClosure, ExprMethodCall, FnArg, Member, Pat, Stmt, Type};

use super::kinds::Kind;
use super::names::{Function, Names};
use crate::source::code_only;
use crate::syntax::{expressions, segments};

/// Walks through a body from top to bottom and notes the kinds of its variables.
pub(super) struct Body<'a> {
    names: &'a Names<'a>,
    function: &'a Function<'a>,
    variables: Vec<BTreeMap<String, Kind>>,
    /// The functions that are called or passed as values, once for each place.
    pub(super) calls: Vec<usize>,
    /// The names of the modules' methods that are called on a value of unknown type, or that occur
    /// in a macro that cannot be parsed.
    pub(super) unclear: BTreeSet<String>,
}

impl<'a> Body<'a> {
    pub(super) fn of(names: &'a Names<'a>, function: &'a Function<'a>) -> Self {
        let mut body = Self {
            names,
            function,
            variables: vec![BTreeMap::new()],
            calls: Vec::new(),
            unclear: BTreeSet::new(),
        };
        if let Some(own) = &function.owner {
            body.set("self", Kind::exactly(own.clone()));
        }
        for input in &function.signature.inputs {
            if let FnArg::Typed(input) = input {
                let kind = body.written(&input.ty);
                body.bind(&input.pat, &kind);
            }
        }
        if let Some(block) = function.body {
            body.block(block);
        }
        body
    }

    fn own(&self) -> Option<&'a str> {
        self.function.owner.as_deref()
    }

    fn set(&mut self, name: &str, kind: Kind) {
        if let Some(scope) = self.variables.last_mut() {
            scope.insert(name.to_owned(), kind);
        }
    }

    fn variable(&mut self, expression: &Expr) -> Option<&mut Kind> {
        let Expr::Path(path) = expression else {
            return None;
        };
        let name = path.path.get_ident()?.to_string();
        let mut scopes = self.variables.iter_mut().rev();
        scopes.find_map(|scope| scope.get_mut(&name))
    }

    fn within<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.variables.push(BTreeMap::new());
        let result = inner(self);
        self.variables.pop();
        result
    }

    /// Returns the kind of a type that is written in the body or the signature.
    fn written(&self, written: &Type) -> Kind {
        let inner = match written {
            Type::Reference(reference) => &*reference.elem,
            other => other,
        };
        if let Type::Path(path) = inner
            && let Some(name) = path.path.get_ident()
        {
            for parameter in self.function.signature.generics.type_params() {
                if parameter.ident == *name {
                    let module = self.function.module;
                    return self.names.bounds(module, self.own(), &parameter.bounds);
                }
            }
        }
        self.names.kind(self.function.module, self.own(), written)
    }

    fn block(&mut self, block: &Block) -> Kind {
        self.within(|body| {
            let mut last = Kind::default();
            for statement in &block.stmts {
                last = body.statement(statement);
            }
            last
        })
    }

    fn statement(&mut self, statement: &Stmt) -> Kind {
        match statement {
            Stmt::Local(local) => {
                let kind = match &local.init {
                    Some(init) => {
                        let kind = self.eval(&init.expr);
                        if let Some((_, otherwise)) = &init.diverge {
                            self.eval(otherwise);
                        }
                        kind
                    }
                    None => Kind::default(),
                };
                self.bind(&local.pat, &kind);
            }
            Stmt::Expr(expression, end) => {
                let kind = self.eval(expression);
                if end.is_none() {
                    return kind;
                }
            }
            Stmt::Macro(statement) => {
                self.macro_call(&statement.mac);
            }
            Stmt::Item(item) => syn::visit::visit_item(self, item),
        }
        Kind::default()
    }

    fn bind(&mut self, pattern: &Pat, kind: &Kind) {
        match pattern {
            Pat::Ident(name) => {
                self.set(&name.ident.to_string(), kind.clone());
                if let Some((_, inner)) = &name.subpat {
                    self.bind(inner, kind);
                }
            }
            Pat::Type(typed) => {
                let kind = match &*typed.ty {
                    Type::Infer(_) => kind.clone(),
                    // In a type such as `Vec<_>` the value decides what the gap is. A type without
                    // a gap is complete.
                    written if has_gap(written) => self.written(written).or(kind.loose()),
                    written => self.written(written),
                };
                self.bind(&typed.pat, &kind);
            }
            Pat::Guard(guarded) => {
                self.bind(&guarded.pat, kind);
                self.eval(&guarded.guard);
            }
            Pat::Reference(inner) => self.bind(&inner.pat, kind),
            Pat::Paren(inner) => self.bind(&inner.pat, kind),
            Pat::Or(cases) => cases.cases.iter().for_each(|case| self.bind(case, kind)),
            Pat::Tuple(tuple) => tuple
                .elems
                .iter()
                .for_each(|part| self.bind(part, &kind.loose())),
            Pat::Slice(slice) => slice
                .elems
                .iter()
                .for_each(|part| self.bind(part, &kind.loose())),
            Pat::TupleStruct(parts) => {
                for (place, part) in parts.elems.iter().enumerate() {
                    let kind = self.part(&parts.path, &place.to_string(), kind);
                    self.bind(part, &kind);
                }
            }
            Pat::Struct(parts) => {
                for field in &parts.fields {
                    let kind = self.part(&parts.path, &member(&field.member), kind);
                    self.bind(&field.pat, &kind);
                }
            }
            _ => {}
        }
    }

    /// Returns the kind of a field in a pattern, by the path of the pattern and the name or
    /// position of the field. `whole` is the kind of the value that the pattern matches.
    fn part(&self, path: &syn::Path, name: &str, whole: &Kind) -> Kind {
        let module = self.function.module;
        match self.names.variant(module, self.own(), &segments(path)) {
            Some(variant) => self.names.part(&variant, name),
            None => whole.loose(),
        }
    }

    fn eval(&mut self, expression: &Expr) -> Kind {
        match expression {
            Expr::Path(path) => self.path(expression, &path.path),
            Expr::Call(call) => self.call(call),
            Expr::MethodCall(call) => self.method_call(call),
            Expr::Field(field) => {
                let base = self.eval(&field.base);
                self.names.field(&base, &member(&field.member))
            }
            Expr::Closure(closure) => self.closure(closure, None),
            Expr::Macro(call) => self.macro_call(&call.mac),
            Expr::Struct(literal) => {
                let mut kind = Kind::default();
                for field in &literal.fields {
                    kind = kind.or(self.eval(&field.expr));
                }
                if let Some(rest) = &literal.rest {
                    kind = kind.or(self.eval(rest));
                }
                self.constructed(&literal.path)
                    .unwrap_or_else(|| kind.loose())
            }
            Expr::If(choice) => self.within(|body| {
                body.eval(&choice.cond);
                let kind = body.block(&choice.then_branch);
                let otherwise = choice.else_branch.as_ref();
                kind.or(otherwise.map_or_else(Kind::default, |(_, other)| body.eval(other)))
            }),
            Expr::Match(choice) => {
                let whole = self.eval(&choice.expr);
                let mut kind = Kind::default();
                for arm in &choice.arms {
                    kind = kind.or(self.within(|body| {
                        body.bind(&arm.pat, &whole);
                        body.eval(&arm.body)
                    }));
                }
                kind
            }
            Expr::Let(condition) => {
                let kind = self.eval(&condition.expr);
                self.bind(&condition.pat, &kind);
                Kind::default()
            }
            Expr::ForLoop(each) => {
                let all = self.eval(&each.expr).loose();
                self.within(|body| {
                    body.bind(&each.pat, &all);
                    body.block(&each.body)
                });
                Kind::default()
            }
            Expr::While(repeated) => self.within(|body| {
                body.eval(&repeated.cond);
                body.block(&repeated.body);
                Kind::default()
            }),
            Expr::Assign(assignment) => {
                let kind = self.eval(&assignment.right);
                self.eval(&assignment.left);
                if let Some(known) = self.variable(&assignment.left) {
                    *known = std::mem::take(known).or(kind);
                }
                Kind::default()
            }
            other => self.eval_simple(other),
        }
    }

    /// Evaluates expressions whose kind follows from the kinds of their parts.
    fn eval_simple(&mut self, expression: &Expr) -> Kind {
        match expression {
            Expr::Reference(inner) => self.eval(&inner.expr),
            Expr::Paren(inner) => self.eval(&inner.expr),
            Expr::Group(inner) => self.eval(&inner.expr),
            Expr::Unary(inner) => self.eval(&inner.expr),
            Expr::Try(inner) => self.eval(&inner.expr).loose(),
            Expr::Block(inner) => self.block(&inner.block),
            Expr::Loop(inner) => self.block(&inner.body).loose(),
            Expr::Index(inner) => {
                self.eval(&inner.index);
                self.eval(&inner.expr).loose()
            }
            Expr::Tuple(parts) => self.all(&mut parts.elems.iter()),
            Expr::Array(parts) => self.all(&mut parts.elems.iter()),
            other => {
                syn::visit::visit_expr(self, other);
                Kind::default()
            }
        }
    }

    fn all(&mut self, parts: &mut dyn Iterator<Item = &Expr>) -> Kind {
        let mut kind = Kind::default();
        for part in parts {
            kind = kind.or(self.eval(part).loose());
        }
        kind
    }

    fn constructed(&self, path: &syn::Path) -> Option<Kind> {
        let module = self.function.module;
        let variant = self.names.variant(module, self.own(), &segments(path));
        variant.map(|(owner, _)| Kind::exactly(owner))
    }

    /// Evaluates a path: a variable, a function that is passed as a value, or a constant.
    fn path(&mut self, expression: &Expr, path: &syn::Path) -> Kind {
        if let Some(kind) = self.variable(expression) {
            return kind.clone();
        }
        let found = self
            .names
            .function(self.function.module, self.own(), &segments(path));
        let mut kind = Kind::default();
        for function in found {
            self.calls.push(function);
            kind = kind.or(self.names.result(function));
        }
        self.constructed(path).unwrap_or_else(|| kind.loose())
    }

    fn call(&mut self, call: &ExprCall) -> Kind {
        let mut given = Kind::default();
        let is_variable = self.variable(&call.func).is_some();
        let path = match &*call.func {
            Expr::Path(path) if !is_variable => &path.path,
            other => {
                given = self.eval(other);
                return given
                    .or(self.arguments(&mut call.args.iter(), &Kind::default()))
                    .loose();
            }
        };
        let found = self
            .names
            .function(self.function.module, self.own(), &segments(path));
        let mut kind = Kind::default();
        for &function in &found {
            self.calls.push(function);
            kind = kind.or(self.names.result(function));
            given = given.or(self.names.inputs(function));
        }
        let arguments = self.arguments(&mut call.args.iter(), &given);
        match self.constructed(path) {
            _ if !found.is_empty() => kind,
            Some(kind) => kind,
            // The result of a function that the modules do not define, such as `Box::new(x)`,
            // `Some(x)` or `mem::take(x)`, can contain its arguments.
            None => arguments.loose(),
        }
    }

    fn method_call(&mut self, call: &ExprMethodCall) -> Kind {
        let receiver = self.eval(&call.receiver);
        let name = call.method.to_string();
        let found = self.names.method(&receiver, &name);
        let is_unclear = receiver.is_unknown && receiver.all().next().is_none();
        if is_unclear && self.names.is_method(&name) {
            self.unclear.insert(name.clone());
        }
        let mut kind = Kind::default();
        let mut given = receiver.loose();
        for &function in &found {
            self.calls.push(function);
            kind = kind.or(self.names.result(function));
            given = given.or(self.names.inputs(function));
        }
        let arguments = self.arguments(&mut call.args.iter(), &given);
        if !found.is_empty() {
            return kind;
        }
        // A method of a collection can store its arguments in the collection.
        if receiver.exact.is_none()
            && let Some(known) = self.variable(&call.receiver)
        {
            *known = std::mem::take(known).or(arguments.loose());
        }
        if name == "clone" {
            return receiver;
        }
        receiver.loose().or(arguments.loose())
    }

    /// Evaluates arguments. The inputs of closures among them can be the other arguments or values
    /// of the kind `given`.
    fn arguments(&mut self, all: &mut dyn Iterator<Item = &Expr>, given: &Kind) -> Kind {
        let mut kind = Kind::default();
        let mut closures = Vec::new();
        for argument in all {
            match argument {
                Expr::Closure(closure) => closures.push(closure),
                other => kind = kind.or(self.eval(other).loose()),
            }
        }
        for closure in closures {
            let given = given.clone().or(kind.clone());
            kind = kind.or(self.closure(closure, Some(&given)).loose());
        }
        kind
    }

    /// Evaluates a closure whose inputs have this kind. Returns the kind of its result.
    fn closure(&mut self, closure: &ExprClosure, given: Option<&Kind>) -> Kind {
        self.within(|body| {
            for input in &closure.inputs {
                let kind = given.map_or_else(Kind::unknown, Kind::loose);
                body.bind(input, &kind);
            }
            body.eval(&closure.body)
        })
    }

    fn macro_call(&mut self, call: &syn::Macro) -> Kind {
        let Some(all) = expressions(call).or_else(|| first_expression(call)) else {
            // A macro that cannot be parsed can call each method that it names.
            let text = code_only(&call.tokens.to_string());
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            for word in words.filter(|word| self.names.is_method(word)) {
                self.unclear.insert(word.to_owned());
            }
            return Kind::default();
        };
        self.arguments(&mut all.iter(), &Kind::default())
    }
}

/// Returns the value and the guard of `matches!(value, pattern if guard)`.
fn first_expression(call: &syn::Macro) -> Option<Vec<Expr>> {
    let parser = |input: syn::parse::ParseStream<'_>| {
        let value: Expr = input.parse()?;
        input.parse::<syn::Token![,]>()?;
        Pat::parse_multi_with_leading_vert(input)?;
        let guard = if input.parse::<Option<syn::Token![if]>>()?.is_some() {
            Some(input.parse()?)
        } else {
            None
        };
        input.parse::<Option<syn::Token![,]>>()?;
        Ok([Some(value), guard].into_iter().flatten().collect())
    };
    syn::parse::Parser::parse2(parser, call.tokens.clone()).ok()
}

/// True if a part of the type is `_`.
fn has_gap(written: &Type) -> bool {
    struct Gap(bool);
    impl Visit<'_> for Gap {
        fn visit_type_infer(&mut self, _: &syn::TypeInfer) {
            self.0 = true;
        }
    }
    let mut gap = Gap(false);
    gap.visit_type(written);
    gap.0
}

fn member(member: &Member) -> String {
    match member {
        Member::Named(name) => name.to_string(),
        Member::Unnamed(place) => place.index.to_string(),
    }
}

impl<'ast> Visit<'ast> for Body<'_> {
    fn visit_expr(&mut self, expression: &'ast Expr) {
        self.eval(expression);
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.block(block);
    }
}
