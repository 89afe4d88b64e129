//! Which modules a list of a `quantization_config` means: names, and patterns in a part of Python's syntax.

use crate::error::{Error, Result};

/// What a pattern's letters can be.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    /// Any of these ranges, or none of them.
    Letter {
        ranges: Vec<(char, char)>,
        negated: bool,
    },
    End,
    /// Any of these sequences.
    Either(Vec<Vec<Node>>),
    Repeated {
        node: Box<Node>,
        least: usize,
        most: usize,
    },
}

/// A pattern as `re.match` of Python has it: it must fit from the beginning, and need not reach the end.
///
/// Letters, `.`, `\d`, `\w`, classes, groups, alternatives and repetitions are read; anything else is refused, so that no
/// layer is taken for another kind.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pattern(Vec<Vec<Node>>);

/// Names are shorter.
const LONGEST: usize = 1 << 12;

/// Groups in groups.
const DEEPEST: usize = 16;

/// Repetitions in repetitions, each of which takes as many steps as a name has letters.
const DEEPEST_REPETITION: usize = 3;

impl Pattern {
    /// # Errors
    /// What is not read, by the pattern.
    pub fn new(text: &str) -> Result<Self> {
        let refused = || {
            Error::format(format!("the pattern {text:?} cannot be read"))
                .hint("letters, `.`, `\\d`, `\\w`, `[...]`, `(a|b)`, `*`, `+`, `?`, `{m,n}` and `$` can")
        };
        let mut letters = text.strip_prefix('^').unwrap_or(text).chars().peekable();
        let parsed = if text.len() > LONGEST { None } else { alternatives(&mut letters, 0) };
        parsed.filter(|_| letters.next().is_none()).map(Self).ok_or_else(refused)
    }

    pub fn fits(&self, name: &str) -> bool {
        let letters: Vec<char> = name.chars().take(LONGEST).collect();
        self.0.iter().any(|sequence| !reached(sequence, &letters, vec![0]).is_empty())
    }
}

type Letters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn alternatives(letters: &mut Letters<'_>, depth: usize) -> Option<Vec<Vec<Node>>> {
    let mut found = vec![Vec::new()];
    while let Some(&letter) = letters.peek() {
        if letter == ')' {
            break;
        }
        letters.next();
        if letter == '|' {
            found.push(Vec::new());
            continue;
        }
        let node = match letter {
            '(' => {
                if letters.peek() == Some(&'?') {
                    letters.next();
                    letters.next_if_eq(&':')?;
                }
                let inner = if depth < DEEPEST { alternatives(letters, depth + 1)? } else { return None };
                letters.next_if_eq(&')')?;
                Node::Either(inner)
            }
            '[' => class(letters)?,
            '\\' => escaped(letters.next()?)?,
            '.' => Node::Letter { ranges: Vec::new(), negated: true },
            '$' => Node::End,
            '*' | '+' | '?' | '{' | '}' | '^' => return None,
            other => Node::Letter { ranges: vec![(other, other)], negated: false },
        };
        let node = repeated(node, letters)?;
        found.last_mut()?.push(node);
    }
    Some(found)
}

fn repeated(node: Node, letters: &mut Letters<'_>) -> Option<Node> {
    let (least, most) = match letters.peek() {
        Some('*') => (0, LONGEST),
        Some('+') => (1, LONGEST),
        Some('?') => (0, 1),
        Some('{') => {
            letters.next();
            let mut text = String::new();
            while let Some(letter) = letters.next_if(|&letter| letter != '}') {
                text.push(letter);
            }
            let (least, most) = text.split_once(',').unwrap_or((&text, &text));
            let most = if most.is_empty() { LONGEST } else { most.parse().ok()? };
            (least.parse().ok()?, most)
        }
        _ => return Some(node),
    };
    letters.next()?;
    // Whether as few or as many as can be are tried first makes no difference to whether there is a way.
    letters.next_if_eq(&'?');
    let is_free = !matches!(letters.peek(), Some('*' | '+' | '?' | '{'));
    let repeated = Node::Repeated { node: Box::new(node), least, most };
    (is_free && least <= most && most <= LONGEST && repeated.repetitions() <= DEEPEST_REPETITION).then_some(repeated)
}

impl Node {
    /// Repetitions in repetitions.
    fn repetitions(&self) -> usize {
        match self {
            Self::Letter { .. } | Self::End => 0,
            Self::Either(ways) => ways.iter().flatten().map(Self::repetitions).max().unwrap_or(0),
            Self::Repeated { node, .. } => 1 + node.repetitions(),
        }
    }
}

/// `\d`, `\w`, or a letter that would mean something else.
fn escaped(letter: char) -> Option<Node> {
    let ranges = match letter {
        'd' => vec![('0', '9')],
        'w' => vec![('0', '9'), ('a', 'z'), ('A', 'Z'), ('_', '_')],
        other if other.is_ascii_punctuation() => vec![(other, other)],
        _ => return None,
    };
    Some(Node::Letter { ranges, negated: false })
}

fn class(letters: &mut Letters<'_>) -> Option<Node> {
    let negated = letters.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    loop {
        match letters.next()? {
            ']' if !ranges.is_empty() => return Some(Node::Letter { ranges, negated }),
            '\\' => match escaped(letters.next()?)? {
                Node::Letter { ranges: more, .. } => ranges.extend(more),
                _ => return None,
            },
            first if letters.peek() == Some(&'-') => {
                letters.next();
                match letters.next()? {
                    ']' => {
                        return Some(Node::Letter {
                            ranges: [ranges, vec![(first, first), ('-', '-')]].concat(),
                            negated,
                        });
                    }
                    last => ranges.push((first, last)),
                }
            }
            letter => ranges.push((letter, letter)),
        }
    }
}

/// All places that a sequence can end at, from any of these places on. Following all ways at once takes a step for each
/// letter of the name, at the most, and so does a repetition.
fn reached(sequence: &[Node], letters: &[char], places: Vec<usize>) -> Vec<usize> {
    sequence.iter().fold(places, |places, node| if places.is_empty() { places } else { after(node, letters, &places) })
}

fn after(node: &Node, letters: &[char], places: &[usize]) -> Vec<usize> {
    match node {
        Node::Letter { ranges, negated } => {
            let fits = |letter: &char| ranges.iter().any(|(first, last)| (first..=last).contains(&letter)) != *negated;
            places.iter().filter(|&&place| letters.get(place).is_some_and(fits)).map(|place| place + 1).collect()
        }
        Node::End => places.iter().copied().filter(|&place| place == letters.len()).collect(),
        Node::Either(ways) => distinct(ways.iter().flat_map(|way| reached(way, letters, places.to_vec())).collect()),
        Node::Repeated { node, least, most } => {
            let mut now = places.to_vec();
            let mut ends = if *least == 0 { now.clone() } else { Vec::new() };
            for count in 1..=*most {
                let next = distinct(after(node, letters, &now));
                if next == now {
                    // And so it would stay.
                    ends.extend(next);
                    break;
                }
                now = next;
                if count >= *least {
                    now.retain(|place| !ends.contains(place));
                    ends.extend(&now);
                }
                if now.is_empty() {
                    break;
                }
            }
            distinct(ends)
        }
    }
}

fn distinct(mut places: Vec<usize>) -> Vec<usize> {
    places.sort_unstable();
    places.dedup();
    places
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
    /// With its text.
    Pattern(String, Pattern),
}

impl Target {
    /// # Errors
    /// As [`Pattern::new`].
    pub fn new(text: &str) -> Result<Self> {
        Ok(match text.strip_prefix("re:") {
            Some(pattern) => Self::Pattern(pattern.to_owned(), Pattern::new(pattern)?),
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
            Self::Pattern(text, pattern) => pattern.fits(module).then_some((1, text.as_str())),
        }
    }
}

/// `modules_to_not_convert` of transformers: a name, the beginning or the end of one, or a pattern for its beginning.
///
/// Source: `should_convert_module` in transformers `quantizers/quantizers_utils.py`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LeftOut(Vec<(String, Pattern, Pattern)>);

impl LeftOut {
    /// # Errors
    /// As [`Pattern::new`] and [`check_in_all`].
    pub fn new(names: Option<Vec<String>>) -> Result<Self> {
        check_in_all(names.iter().flatten())?;
        let pattern = |name: String| {
            // It ends where a part of the name does.
            let whole = Pattern::new(&format!("(?:{name})(?:$|\\.)"))?;
            let part = Pattern::new(&name)?;
            Ok((name, whole, part))
        };
        names.into_iter().flatten().map(pattern).collect::<Result<_>>().map(Self)
    }

    pub fn has(&self, module: &str) -> bool {
        self.0.iter().any(|(name, whole, _)| module.ends_with(name) || whole.fits(module))
    }

    /// Whether a package may have left it out: transformers takes a pattern for any beginning of a name (`layers.1` for
    /// layer 10 too), AutoAWQ a name for any part of one.
    pub fn may_have(&self, module: &str) -> bool {
        self.0.iter().any(|(name, _, part)| module.contains(name) || part.fits(module))
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
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().fits(name), fits, "{pattern}");
        }
        for pattern in ["(", ")", "a(b", "[a", "*", "a**", "a{2,1}", "a{x}", "(?!a)", "(?P<x>a)", "\\b", "\\", "a\\1"] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
        assert!(Pattern::new(&"(".repeat(100_000)).is_err());
        // What would take for ever if it were counted out.
        for (pattern, fits) in [("((a?){4096}){4096}m", true), ("((.+)+)+q", true), ("((.*){9,}){9,}Q", false)] {
            assert_eq!(Pattern::new(pattern).unwrap().fits(name), fits, "{pattern}");
        }
        assert!(Pattern::new("((((a?){4096}){4096}){4096}){4096}").is_err());
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
