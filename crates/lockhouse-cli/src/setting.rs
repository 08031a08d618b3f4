//! A setting of `serve` that is in effect, and how it is shown.

use serde::Serialize;
use toml::Value;

/// A setting that is in effect.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Setting {
    /// Its key in the file.
    pub(crate) key: String,
    /// Its values, most often one. Without credentials.
    pub(crate) values: Vec<String>,
    /// The source of its values.
    pub(crate) from: From,
    /// Whether it is a switch, which its flag alone turns on.
    pub(crate) is_switch: bool,
    pub(crate) flag: String,
    pub(crate) variable: Option<String>,
    pub(crate) default: Option<String>,
    pub(crate) meaning: String,
}

/// The source of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum From {
    Flag,
    Variable,
    File,
    Default,
}

/// The settings as a file, with the source of each.
pub(crate) fn as_file(settings: &[Setting]) -> String {
    let lines = settings.iter().map(|setting| {
        let Setting {
            key, values, from, ..
        } = setting;
        let from = match from {
            From::Flag => "flag",
            From::Variable => "variable",
            From::File => "file",
            From::Default => "default",
        };
        let value = match &values[..] {
            [] if setting.is_switch => "false".to_owned(),
            [] => return format!("# {key} is not set\n"),
            [one] if setting.is_switch || one.parse::<i64>().is_ok() => one.clone(),
            [one] => Value::from(one.as_str()).to_string(),
            all => Value::from(all.to_vec()).to_string(),
        };
        format!("{key} = {value} # {from}\n")
    });
    lines.collect()
}
