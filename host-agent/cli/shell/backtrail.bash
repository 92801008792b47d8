# SPDX-License-Identifier: GPL-2.0-or-later
# Completion of backtrail for bash: the words are those of "backtrail complete".

# A domain can have any name: it is quoted.  Bash has only the part of the word
# that comes after the last "=" or ":", which is not quoted.
_backtrail_domains()
{
    local name quoted begun=$3 missing=$((${#3} - ${#2}))

    while IFS= read -r name; do
        printf -v quoted %q "$name"
        # Within quotes there are other rules.
        if [[ $begun == [\"\']* ]]; then
            [[ $quoted == "$name" ]] || continue
            quoted=${begun:0:1}$quoted
        fi
        if [[ $name && $quoted == "$begun"* ]]; then
            quoted=${quoted:missing}
            COMPREPLY+=("${quoted#[\"\']}")
        fi
    done < <(virsh ${1:+-c "$1"} -r list --all --name 2>/dev/null </dev/null)
}

_backtrail()
{
    local words=() value=${COMP_WORDS[COMP_CWORD]} name meaning blanks i
    local rest=${COMP_LINE:0:COMP_POINT}

    COMPREPLY=()
    # Bash breaks words at "=" and ":", too.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        blanks=${rest%%[![:blank:]]*}
        rest=${rest#"$blanks"}
        rest=${rest#"${COMP_WORDS[i]}"}
        if ((i > 1)) && [[ ! $blanks ]]; then
            words[-1]+=${COMP_WORDS[i]}
        elif ((i > 0)); then
            words+=("${COMP_WORDS[i]}")
        fi
    done
    if [[ $value == [=:] ]]; then
        value=
    fi
    while IFS=$'\t' read -r name meaning; do
        case $name in
        :files)
            compopt -o filenames 2>/dev/null
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY \
                < <(compgen -f -- "$value")
            ;;
        :folders)
            compopt -o filenames 2>/dev/null
            mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY \
                < <(compgen -d -- "$value")
            ;;
        ':domains '*)
            _backtrail_domains "${name#:domains }" "$value" \
                "${words[-1]}"
            ;;
        *)
            COMPREPLY+=("$name")
            ;;
        esac
    done < <("$1" complete "${words[@]}" 2>/dev/null </dev/null)
    if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == --*= ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

complete -F _backtrail backtrail
