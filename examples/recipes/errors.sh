# For the other recipes: what a message of an agent is about. Usage limits are not among it: `ledger run`
# and `ledger work` read them in the message of a failed attempt, and wait until the time that it names.

# Prints what a message of an agent or of its provider is about: overload, account or other.
kind_of_error() {
    printf '%s\n' "$1" | tr '\n' ' ' | sed -E '
        /hit your .*limit|usage limit|limit reached|quota will reset|exhausted your|RESOURCE_EXHAUSTED|Quota exceeded/I c other
        t
        /overloaded|rate.?limit|API Error: (429|5[0-9][0-9])|"code": ?(429|5[0-9][0-9])|(status|error) (429|5[0-9][0-9])|stream (error|disconnected)|connection (error|reset|refused)|ECONNRESET|ETIMEDOUT|timed out/I c overload
        /invalid api key|authentication|unauthorized|not logged in|\/login|insufficient_quota/I c account
        c other' | head -n 1
}

# Prints in one line that an agent gave no answer: its name, its exit status, and what it printed instead.
no_answer() {
    why=
    [ "$2" -le 128 ] || why=", it was killed by signal $(($2 - 128))"
    said=$(printf '%s' "$3" | tr '\n' ' ' | head -c 200)
    echo "$1 gave no answer$why${said:+: $said}"
}
