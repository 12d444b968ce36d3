//! The names of properties of characters, such as `Lu` in `\p{Lu}`.

use super::translation::{invalid, refused};
use crate::store::error::StoreError;

/// The reason of PCRE2 for a name that it does not know.
const UNKNOWN_PROPERTY: &str = r"unknown property after \P or \p";

/// The general categories, without blanks and in lower case.
const CATEGORIES: &str = "c cc cf cn co cs l lc ll lm lo lt lu m mc me mn n nd nl no p pc pd pe pf \
                          pi po ps s sc sk sm so z zl zp zs any";

/// The properties that a character has or has not.
const BINARY: &str = "ahex alpha alphabetic ascii asciihexdigit bidic bidicontrol bidim \
                      bidimirrored cased caseignorable changeswhencasefolded \
                      changeswhencasemapped changeswhenlowercased changeswhentitlecased \
                      changeswhenuppercased ci cwcf cwcm cwl cwt cwu dash \
                      defaultignorablecodepoint dep deprecated di dia diacritic ebase ecomp emod \
                      emoji emojicomponent emojimodifier emojimodifierbase emojipresentation epres \
                      ext extendedpictographic extender extpict graphemebase graphemeextend \
                      graphemelink grbase grext grlink hex hexdigit idc idcontinue ideo \
                      ideographic ids idsb idsbinaryoperator idst idstart idstrinaryoperator joinc \
                      joincontrol loe logicalorderexception lower lowercase math nchar \
                      noncharactercodepoint patsyn patternsyntax patternwhitespace patws pcm \
                      prependedconcatenationmark qmark quotationmark radical regionalindicator ri \
                      sd sentenceterminal softdotted space sterm term terminalpunctuation uideo \
                      unifiedideograph upper uppercase variationselector vs whitespace wspace xidc \
                      xidcontinue xids xidstart";

/// Names that the engines take as scripts, but PCRE2 does not.
const UNKNOWN: &str = "hrkt katakanaorhiragana";

/// Returns the text of a property for the engines. Before 6.1, a name of a script alone stands for
/// the characters of this script, and later also for those that other scripts share with it.
///
/// # Errors
///
/// If PCRE2 has no property of this name.
pub(super) fn property(name: &str, has_extensions: bool) -> Result<String, StoreError> {
    let normal = |name: &str| -> String {
        let blanks = [' ', '-', '_'];
        let letters = name.chars().filter(|c| !blanks.contains(c));
        letters.map(|c| c.to_ascii_lowercase()).collect()
    };
    let is_in = |list: &str, name: &str| list.split_whitespace().any(|own| own == name);
    let unknown = || invalid(UNKNOWN_PROPERTY);
    if let Some((kind, value)) = name.split_once([':', '=']) {
        let (kind, value) = (normal(kind), normal(value));
        return match kind.as_str() {
            "sc" | "script" if is_script(&value) => Ok(format!("sc={value}")),
            "scx" | "scriptextensions" if is_script(&value) => Ok(format!("scx={value}")),
            "bc" | "bidiclass" => Err(refused("classes of directions", UNKNOWN_PROPERTY)),
            _ => Err(unknown()),
        };
    }
    let name = normal(name);
    match name.as_str() {
        "l&" => Ok("lc".to_owned()),
        "xan" | "xps" | "xsp" | "xuc" | "xwd" => {
            Err(refused(&format!("the property {name}"), UNKNOWN_PROPERTY))
        }
        _ if is_in(CATEGORIES, &name) || is_in(BINARY, &name) => Ok(name),
        _ if is_in(UNKNOWN, &name) || !is_script(&name) => Err(unknown()),
        _ if has_extensions => Ok(format!("scx={name}")),
        _ => Ok(format!("sc={name}")),
    }
}

/// True if a name can be that of a script. The engines refuse unknown names, but they ignore `is`
/// at the start of a name.
fn is_script(name: &str) -> bool {
    let is_word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic());
    is_word && !name.starts_with("is")
}
