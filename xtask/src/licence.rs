//! SPDX licence expressions: whether a list of licences satisfies one.

use anyhow::{Result, bail};

/// Whether someone who accepts the licences for which `accepts` holds may use what is under this expression.
pub(crate) fn is_satisfied(expression: &str, accepts: &dyn Fn(&str) -> bool) -> Result<bool> {
    // Before there were expressions, `/` stood between alternatives.
    let expression = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = expression.split_whitespace().collect();
    let mut rest = &words[..];
    let satisfied = any_of(&mut rest, accepts)?;
    match rest {
        [] => Ok(satisfied),
        [word, ..] => bail!("{word:?} is not expected in the licence {expression:?}"),
    }
}

fn any_of(words: &mut &[&str], accepts: &dyn Fn(&str) -> bool) -> Result<bool> {
    let mut satisfied = all_of(words, accepts)?;
    while take(words, "OR") {
        satisfied |= all_of(words, accepts)?;
    }
    Ok(satisfied)
}

fn all_of(words: &mut &[&str], accepts: &dyn Fn(&str) -> bool) -> Result<bool> {
    let mut satisfied = one(words, accepts)?;
    while take(words, "AND") {
        satisfied &= one(words, accepts)?;
    }
    Ok(satisfied)
}

fn one(words: &mut &[&str], accepts: &dyn Fn(&str) -> bool) -> Result<bool> {
    if take(words, "(") {
        let satisfied = any_of(words, accepts)?;
        if !take(words, ")") {
            bail!("a licence lacks its closing parenthesis");
        }
        return Ok(satisfied);
    }
    match **words {
        [")" | "AND" | "OR" | "WITH", ..] | [] => bail!("a licence is missing in an expression"),
        [name, "WITH", exception, ref rest @ ..] => {
            *words = rest;
            Ok(accepts(&format!("{name} WITH {exception}")))
        }
        [name, ref rest @ ..] => {
            *words = rest;
            Ok(accepts(name))
        }
    }
}

fn take(words: &mut &[&str], word: &str) -> bool {
    match words.split_first() {
        Some((first, rest)) if *first == word => {
            *words = rest;
            true
        }
        Some(_) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_satisfied;

    #[test]
    fn an_expression_is_satisfied_by_one_alternative_and_by_all_parts_of_it() {
        let accepts = |name: &str| ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].contains(&name);
        for (expression, satisfied) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT OR GPL-3.0", true),
            ("GPL-3.0/MIT", true),
            ("MIT AND GPL-3.0", false),
            ("MIT AND ISC", true),
            ("GPL-3.0 OR MIT AND ISC", true),
            ("(GPL-3.0 OR MIT) AND ISC", true),
            ("(MIT OR ISC) AND GPL-3.0", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("Apache-2.0", false),
            ("MIT WITH LLVM-exception", false),
        ] {
            assert_eq!(
                is_satisfied(expression, &accepts).unwrap(),
                satisfied,
                "{expression}"
            );
        }
        for broken in ["", "MIT OR", "(MIT", "MIT)", "AND MIT", "MIT ISC", "MIT WITH"] {
            assert!(is_satisfied(broken, &accepts).is_err(), "{broken}");
        }
    }
}
