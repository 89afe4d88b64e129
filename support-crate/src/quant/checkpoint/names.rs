//! Which modules a list of a `quantization_config` means: names, and patterns of Python.

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use crate::error::{Error, Result};

/// A pattern as `re.match` of Python has it: it must fit from the beginning, and need not reach the end.
///
/// Names of modules are ASCII, and so are `\d` and `\w` here.
#[derive(Debug, Clone)]
pub(super) struct Pattern(Regex);

/// What Python reads in another way: operators of sets, repetitions that give nothing back, escapes.
const READ_OTHERWISE: [&str; 9] = ["&&", "--", "~~", "*+", "++", "?+", "}+", "\\<", "\\>"];

impl Pattern {
    /// # Errors
    /// What is not read, or not as Python reads it, so that no layer is taken for another kind; by the pattern.
    pub fn new(text: &str) -> Result<Self> {
        let refused = |why: &str| {
            Error::format(format!("the pattern {text:?} cannot be read: {why}"))
                .hint("patterns are read as Python has them, but without look-around and back-references")
        };
        // Sets in sets are no more than brackets there.
        let has_sets_in_sets = text.split(']').any(|part| part.matches('[').count() > 1);
        if has_sets_in_sets || READ_OTHERWISE.iter().any(|two| text.contains(two)) {
            return Err(refused("Python takes a part of it for something else"));
        }
        // Room for what the text says once: `((a{99}){99}){99}` says it a million times.
        let room = (1 << 13) + 128 * text.len();
        let built = RegexBuilder::new(text).unicode(false).size_limit(room).build();
        built.map(Self).map_err(|cause| {
            // The last line says why, those before it where.
            let cause = cause.to_string();
            refused(cause.lines().last().unwrap_or_default().trim_start_matches("error: "))
        })
    }

    pub fn fits(&self, name: &str) -> bool {
        self.0.find(name.as_bytes()).is_some_and(|found| found.start() == 0)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

/// Letters of all names and patterns of a config: twice what a list of every layer of the largest model has.
const LONGEST_IN_ALL: usize = 1 << 16;

/// Refuses lists that each layer's name would be compared with for ever.
///
/// # Errors
/// They are too long, together.
pub(super) fn check_in_all<'a>(lists: impl Iterator<Item = &'a String>) -> Result<()> {
    let letters: usize = lists.map(String::len).sum();
    if letters <= LONGEST_IN_ALL {
        return Ok(());
    }
    Err(Error::format(format!("its lists of layers have {letters} letters; {LONGEST_IN_ALL} can be read"))
        .hint("no model has as many layers; one pattern can stand for many of them"))
}

/// `NAME` or `re:PATTERN`, as compressed-tensors has them.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Target {
    Name(String),
    Pattern(Pattern),
}

impl Target {
    /// # Errors
    /// As [`Pattern::new`].
    pub fn new(text: &str) -> Result<Self> {
        Ok(match text.strip_prefix("re:") {
            Some(pattern) => Self::Pattern(Pattern::new(pattern)?),
            None => Self::Name(text.to_owned()),
        })
    }

    /// Whether it means a linear layer of this name: by its name, or by its class.
    pub fn means(&self, module: &str) -> bool {
        self.rank(module).is_some()
    }

    /// How closely it means the layer, 0 by its name, 1 by a pattern, 2 by its class, and its text, as the first of which
    /// one counts before others like it; nothing if it does not mean the layer.
    pub fn rank(&self, module: &str) -> Option<(u8, &str)> {
        match self {
            Self::Name(name) if name == module => Some((0, name.as_str())),
            Self::Name(name) => (name == "Linear").then_some((2, name.as_str())),
            Self::Pattern(pattern) => pattern.fits(module).then_some((1, pattern.0.as_str())),
        }
    }
}

/// `modules_to_not_convert` of transformers: a name, the beginning or the end of one, or a pattern for its beginning.
///
/// Source: `should_convert_module` in transformers `quantizers/quantizers_utils.py`.
#[derive(Debug, Clone)]
pub(super) struct LeftOut {
    names: Vec<String>,
    /// Of the beginning of a name that ends where a part of it does.
    whole: RegexSet,
    /// Of any beginning.
    part: RegexSet,
}

impl LeftOut {
    /// # Errors
    /// As [`Pattern::new`] and [`check_in_all`].
    pub fn new(names: Option<Vec<String>>) -> Result<Self> {
        let names = names.unwrap_or_default();
        check_in_all(names.iter())?;
        names.iter().try_for_each(|name| Pattern::new(name).map(drop))?;
        let all = |end: &str| {
            let patterns = names.iter().map(|name| format!("\\A(?:{name}){end}"));
            let built = RegexSetBuilder::new(patterns).unicode(false).build();
            built.map_err(|cause| Error::format(format!("its list of layers cannot be read: {cause}")))
        };
        let (whole, part) = (all("(?:$|\\.)")?, all("")?);
        Ok(Self { names, whole, part })
    }

    pub fn has(&self, module: &str) -> bool {
        self.names.iter().any(|name| module.ends_with(name)) || self.whole.is_match(module.as_bytes())
    }

    /// Whether a package may have left it out: transformers takes a pattern for any beginning of a name (`layers.1` for
    /// layer 10 too), AutoAWQ a name for any part of one.
    pub fn may_have(&self, module: &str) -> bool {
        self.names.iter().any(|name| module.contains(name)) || self.part.is_match(module.as_bytes())
    }
}

impl PartialEq for LeftOut {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As Python's `re.match` answers.
    #[test]
    fn patterns_fit_as_in_python() {
        let name = "model.layers.12.self_attn.q_proj";
        for (pattern, fits) in [
            ("", true),
            ("model", true),
            ("layers", false),
            (".*layers", true),
            ("^model\\.layers\\.\\d+\\.self_attn\\.[qkv]_proj$", true),
            ("model\\.layers\\.\\d\\.self_attn", false),
            (".*\\.(q|k)_proj", true),
            (".*\\.(?:gate|up)_proj$", false),
            (".*self_attn$", false),
            (".*(self_attn|mlp)\\.\\w+$", true),
            ("model.layers.1{1,2}2?\\.", true),
            ("model\\.layers\\.[^0-9]", false),
            ("(a|m|mo|model)*.l", true),
            (".+?proj{1}$", true),
            ("(?P<first>model)\\b", true),
            ("(?i)MODEL", true),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().fits(name), fits, "{pattern}");
        }
        let refused = ["(", ")", "a)(b", "a(b", "[a", "*", "a{2,1}", "a{x}", "\\", "(?!a)", "(?<=a)b", "a\\1", "\\Z"];
        let read_otherwise = ["a++b", "a{2}+", "[a[b]]", "[a-z&&b]", "\\<a"];
        for pattern in refused.into_iter().chain(read_otherwise) {
            let error = Pattern::new(pattern).unwrap_err().to_string();
            assert!(error.contains(&format!("{pattern:?} cannot be read: ")), "{error}");
        }
        let error = Pattern::new(".*(?=proj)").unwrap_err().to_string();
        assert!(error.contains("look-around"), "{error}");
        assert!(Pattern::new(&"(".repeat(100_000)).is_err());
        // What would take for ever, or much memory, if it were counted out.
        assert!(Pattern::new("((.+)+)+q").unwrap().fits(name));
        for pattern in ["((a?){4096}){4096}m", "((.*){9,}){99,}Q"] {
            assert!(Pattern::new(pattern).unwrap_err().to_string().contains("size limit"), "{pattern}");
        }
    }

    #[test]
    fn modules_that_are_left_out() {
        let left_out = LeftOut::new(Some(vec!["lm_head".into(), "layers.1".into(), "model.layers.3".into()])).unwrap();
        for (module, is_left_out) in [
            ("lm_head", true),
            ("model.layers.1", true),
            ("model.layers.1.mlp.up_proj", false),
            ("model.layers.3.mlp.up_proj", true),
            ("model.layers.31.mlp.up_proj", false),
        ] {
            assert_eq!(left_out.has(module), is_left_out, "{module}");
        }
        assert!(!LeftOut::new(None).unwrap().has("lm_head"));
        let left_out = LeftOut::new(Some(vec!["self_attn".into(), "model.layers.1".into()])).unwrap();
        for (module, may_have) in [("model.layers.0.self_attn.q_proj", true), ("model.layers.10.mlp.up_proj", true)] {
            assert_eq!((left_out.has(module), left_out.may_have(module)), (false, may_have), "{module}");
        }
        assert!(!left_out.may_have("model.layers.2.mlp.up_proj"));
    }

    proptest! {
        #[test]
        fn any_pattern_is_read_or_refused(pattern in "[a-c.*+?|(){}\\[\\]^$\\\\d0-9,-]{0,24}", name in "[a-c.0-9]{0,24}") {
            if let Ok(pattern) = Pattern::new(&pattern) {
                pattern.fits(&name);
            }
        }

        #[test]
        fn a_name_fits_itself(name in "[a-z_.0-9]{1,40}") {
            let escaped = name.replace('.', "\\.");
            prop_assert!(Pattern::new(&escaped).unwrap().fits(&name));
            prop_assert!(Target::new(&name).unwrap().means(&name));
        }
    }
}
