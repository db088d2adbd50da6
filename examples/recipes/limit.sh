# For the other recipes: how long to wait when an agent says that a limit of its account is reached.

# Prints the seconds until the time that a message names: 900 if it names none, or if date(1) cannot
# read it. Agents write the time in many ways:
#   Claude AI usage limit reached|1790000000
#   You've hit your limit · resets 3:30am (Europe/Moscow)
#   You've hit your usage limit. ... try again at Apr 28th, 2026 10:03 PM.
#   ... try again in 2 hours 13 minutes.
#   Your quota will reset after 2h15m30s.     Please retry in 28.6s.
seconds_until_reset() {
    now=$(date +%s)
    when=$(printf '%s\n' "$1" | tr '\n' ' ' | sed -nE '
        s/.*\|([0-9]{10}).*/@\1/p; t
        s/.*[Rr]esets? (at )?([^()|]*[ap]m) *\(([^)]*)\).*/TZ="\3" \2/; t zone
        s/.*try again at ([^.]*[AP]M).*/\1/; t time
        s/.*try again in ([0-9][^.]*)\..*/\1/p; t
        s/.*(reset after|retry in) ([0-9hms]+)(\.[0-9]+)?s?.*/\2s/; t span
        b
        :zone
        s/ at / /; p; b
        :time
        s/([0-9])(st|nd|rd|th),/\1,/; p; b
        :span
        s/([0-9]+)h/\1 hours /; s/([0-9]+)m/\1 minutes /; s/([0-9]+)s+/\1 seconds/; s/s$/s/; p')
    # Without a number it is no time.
    case $when in
    *[0-9]*) then=$(date -d "$when" +%s 2> /dev/null) || then=$((now + 900)) ;;
    *) then=$((now + 900)) ;;
    esac
    # A time of day that has passed is the one of tomorrow.
    if [ "$then" -le "$now" ] && [ "$then" -gt $((now - 86400)) ]; then
        case $when in @*) ;; *) then=$((then + 86400)) ;; esac
    fi
    # The clocks may differ a little.
    seconds=$((then - now + 30))
    [ "$seconds" -ge 60 ] || seconds=60
    echo "$seconds"
}

# Prints what a message of an agent or of its provider is about: limit, overload, account or other.
kind_of_error() {
    printf '%s\n' "$1" | tr '\n' ' ' | sed -E '
        /hit your .*limit|usage limit|limit reached|quota will reset|exhausted your|RESOURCE_EXHAUSTED|Quota exceeded/I c limit
        t
        /overloaded|rate.?limit|API Error: (429|5[0-9][0-9])|"code": ?(429|5[0-9][0-9])|(status|error) (429|5[0-9][0-9])|stream (error|disconnected)|connection (error|reset|refused)|ECONNRESET|ETIMEDOUT|timed out/I c overload
        /invalid api key|authentication|unauthorized|not logged in|\/login|insufficient_quota|credit balance is too low/I c account
        c other' | head -n 1
}
