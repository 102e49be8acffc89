# Ends what is left of a program's process trees when the program is gone. $1: how their markers begin.
# Input, a line each: "+ GROUP" or "- GROUP". Its end means that the program has ended, however it did.
trap '' HUP INT QUIT TERM
marker=$1
groups=' '
while read -r change group; do
    case $change in
    +) groups="$groups$group " ;;
    -) case $groups in *" $group "*) groups="${groups%% "$group" *} ${groups#* "$group" }" ;; esac ;;
    esac
done

# Sends a signal to all that is left; fails when nothing is. A group found empty is forgotten at once, so that its
# number is never taken for ours when it is used again.
send() {
    left=' ' found=1
    for group in $groups; do
        kill -s "$1" -- "-$group" 2>/dev/null && left="$left$group " && found=0
    done
    groups=$left
    for environ in $(grep -laF "$marker" /proc/[0-9]*/environ 2>/dev/null); do
        pid=${environ#/proc/}
        kill -s "$1" -- "${pid%/environ}" 2>/dev/null && found=0
    done
    return $found
}

# Not every system sleeps for less than a second.
nap() { sleep 0.05 2>/dev/null || sleep 1; }

send TERM || exit 0
send CONT
for _ in 1 2 3 4; do nap; send 0 || exit 0; done
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do send KILL || exit 0; nap; done
