# A producer around kcat: one call for each message, and an event for what became of it.
# sh kcat-producer.sh BOOTSTRAP TOPIC PRODUCER COUNT RATE ACKS
number=0
while [ "$number" -lt "$4" ]; do
    said=$(printf '%s' "$3.$number" | kcat -P -b "$1" -t "$2" -X acks="$6" -X message.timeout.ms=10000 -vvv 2>&1)
    place=$(printf '%s' "$said" | sed -n 's/.*delivered to partition \([0-9]*\) (offset \([0-9]*\)).*/"partition":\1,"offset":\2/p')
    case $place in
        '') printf '{"name":"producer_send_error","topic":"%s","value":"%s","message":"not delivered"}\n' "$2" "$3.$number" ;;
        *) printf '{"name":"producer_send_success","topic":"%s","value":"%s",%s}\n' "$2" "$3.$number" "$place" ;;
    esac
    number=$((number + 1))
    sleep "$(awk "BEGIN { print 1 / $5 }")"
done
