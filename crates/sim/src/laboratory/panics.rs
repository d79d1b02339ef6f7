//! Panics of a subject are failures like any other. While a history is shortened, hundreds of equal
//! panics happen, and they are not printed.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}
static HOOK: Once = Once::new();

/// Runs a function whose panic is an answer, and returns the panic's message.
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| words_of(&*panic))
}

/// Runs a function without printing the panics of this thread.
pub(crate) fn quietly<T>(run: impl FnOnce() -> T) -> T {
    HOOK.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_QUIET.get() {
                print(panic);
            }
        }));
    });
    let before = IS_QUIET.replace(true);
    let result = run();
    IS_QUIET.set(before);
    result
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let words = panic
        .downcast_ref::<&str>()
        .map(|words| (*words).to_owned());
    let words = words.or_else(|| panic.downcast_ref::<String>().cloned());
    words.unwrap_or_else(|| "without words".to_owned())
}
