//! Settings of one column: [`ColumnRule`], and [`NullRule`] for its nulls.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Choice, NullPolicy, ParseOptionError};

/// How the nulls of one column are written.
///
/// Its text form is that of a [`NullPolicy`], or `default=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NullRule {
    /// As the policy specifies.
    Policy(NullPolicy),
    /// Replaces every null by this value, inside and outside lists. A null list becomes a list of this one value, or of
    /// as many as its fixed-size type requires. A null struct becomes a struct of it. The string is the text form of a
    /// value of the column's type.
    Default(String),
}

impl Default for NullRule {
    fn default() -> Self {
        Self::Policy(NullPolicy::default())
    }
}

impl From<NullPolicy> for NullRule {
    fn from(policy: NullPolicy) -> Self {
        Self::Policy(policy)
    }
}

impl PartialEq<NullPolicy> for NullRule {
    fn eq(&self, policy: &NullPolicy) -> bool {
        self.is(*policy)
    }
}

impl NullRule {
    pub(crate) fn is(&self, policy: NullPolicy) -> bool {
        *self == Self::Policy(policy)
    }
}

/// The prefix of [`NullRule::Default`] in text.
const DEFAULT: &str = "default=";

impl fmt::Display for NullRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(policy) => policy.fmt(f),
            Self::Default(value) => f.pad(&format!("{DEFAULT}{value}")),
        }
    }
}

impl FromStr for NullRule {
    type Err = ParseOptionError;

    fn from_str(text: &str) -> Result<Self, ParseOptionError> {
        match text.strip_prefix(DEFAULT) {
            Some(value) => Ok(Self::Default(value.to_owned())),
            None => text.parse().map(Self::Policy).map_err(|error: ParseOptionError| ParseOptionError {
                expected: format!("{}, {DEFAULT}VALUE", error.expected),
                ..error
            }),
        }
    }
}

impl Serialize for NullRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NullRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The settings of one column, in text after `column:` in `--map`.
///
/// The text is a [`Choice`], `null=` and a [`NullRule`], or both, separated by a comma. The value of `null=default=`
/// extends to the end of the text, commas included, so it must come last.
///
/// ```
/// use arrow_tfrecord::{Choice, ColumnRule, NullPolicy, NullRule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let rule: ColumnRule = "string, null=default=a, b".parse()?;
/// assert_eq!(rule.choice, Some(Choice::String));
/// assert_eq!(rule.nulls, Some(NullRule::Default("a, b".to_owned())));
/// assert_eq!(rule.to_string(), "string, null=default=a, b");
///
/// let rule: ColumnRule = "null=mask".parse()?;
/// assert_eq!((rule.choice, rule.nulls), (None, Some(NullPolicy::Mask.into())));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ColumnRule {
    /// The encoding of its values.
    pub choice: Option<Choice>,
    /// How its nulls are written.
    pub nulls: Option<NullRule>,
}

impl fmt::Display for ColumnRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.choice, &self.nulls) {
            (Some(choice), Some(nulls)) => write!(f, "{choice}, null={nulls}"),
            (Some(choice), None) => choice.fmt(f),
            (None, Some(nulls)) => write!(f, "null={nulls}"),
            (None, None) => Ok(()),
        }
    }
}

impl FromStr for ColumnRule {
    type Err = ParseOptionError;

    fn from_str(text: &str) -> Result<Self, ParseOptionError> {
        let invalid = |found: &str| ParseOptionError {
            option: "rule of a column",
            found: found.to_owned(),
            expected: "a choice, null=POLICY, or both with a comma between".to_owned(),
        };
        let mut rule = Self::default();
        let mut rest = Some(text);
        while let Some(text) = rest {
            let text = text.trim_start();
            if let Some(nulls) = text.strip_prefix("null=") {
                let (nulls, after) = match nulls.split_once(',') {
                    Some((policy, after)) if !nulls.starts_with(DEFAULT) => (policy.trim_end(), Some(after)),
                    _ if nulls.starts_with(DEFAULT) => (nulls, None),
                    _ => (nulls.trim_end(), None),
                };
                if rule.nulls.replace(nulls.parse()?).is_some() {
                    return Err(invalid(text));
                }
                rest = after;
            } else {
                let (choice, after) =
                    text.split_once(',').map_or((text, None), |(choice, after)| (choice, Some(after)));
                if rule.choice.replace(choice.trim_end().parse()?).is_some() {
                    return Err(invalid(text));
                }
                rest = after;
            }
        }
        Ok(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_print_as_they_are_parsed() {
        let texts =
            ["bits", "null=mask", "bits, null=drop", "null=default=", "tensor, null=default= 1,2 ", "null=unset"];
        for text in texts {
            assert_eq!(text.parse::<ColumnRule>().unwrap().to_string(), text);
        }
        let loose: ColumnRule = " null=empty , micros ".parse().unwrap();
        assert_eq!(loose.to_string(), "micros, null=empty");
    }

    #[test]
    fn column_rule_rejects_unknown_policy_and_choice() {
        let message = |text: &str| text.parse::<ColumnRule>().unwrap_err().to_string();
        assert_eq!(
            message("null=zero"),
            r#"unknown null policy "zero": expected absent, unset, empty, error, mask, drop, default=VALUE"#
        );
        assert!(message("bit").starts_with(r#"unknown choice "bit": expected wrap, bits"#));
        let twice =
            r#"unknown rule of a column "string": expected a choice, null=POLICY, or both with a comma between"#;
        assert_eq!(message("bits, string"), twice);
        assert!(message("").starts_with(r#"unknown choice """#));
    }

    #[test]
    fn rules_survive_the_manifest() {
        for rule in [NullRule::Policy(NullPolicy::Mask), NullRule::Default("null".to_owned())] {
            let json = serde_json::to_string(&rule).unwrap();
            assert_eq!(serde_json::from_str::<NullRule>(&json).unwrap(), rule);
        }
        let old = r#"{"record_type":"example","nulls":"absent","choices":{"a":"bits"},"strict":true}"#;
        let options: crate::MappingOptions = serde_json::from_str(old).unwrap();
        assert_eq!(serde_json::to_string(&options).unwrap(), old);
        assert_eq!(options.separator, "/");
    }
}
