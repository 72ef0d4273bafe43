#!/usr/bin/env bash
# The requests that LibreTranslate's documentation shows, sent to a server: address, then a folder
# for the file. Each answer is one line behind the name of its request.
set -euo pipefail
url=$1 folder=$2
post() { curl -sS --fail-with-body -X POST "$url/$1" "${@:2}"; }
json() { post "$1" -H 'Content-Type: application/json' -d "$2"; }
show() { printf '%s\t%s\n' "$1" "$2"; }

show simple "$(json translate '{"q": "Hello!", "source": "en", "target": "es", "api_key": "xxxxxx"}')"
show auto "$(json translate '{"q": "Bonjour tout le monde!", "source": "auto", "target": "en"}')"
show html "$(json translate \
  '{"q": "<p class=\"green\">Hello!</p>", "source": "en", "target": "es", "format": "html"}')"
show alternatives "$(json translate \
  '{"q": "Hello", "source": "en", "target": "fr", "format": "text", "alternatives": 3}')"
show batch "$(json translate '{"q": ["Hello", "world"], "source": "en", "target": "de"}')"
show detect "$(json detect '{"q": "Bonjour tout le monde!"}')"
show languages "$(curl -sS --fail "$url/languages")"
show settings "$(curl -sS --fail "$url/frontend/settings")"
show form "$(post translate -d q=Hello -d source=en -d target=es -d format=text)"
show multipart "$(post translate -F q=Hello -F source=en -F target=es -F api_key=xxxxxx)"
show query "$(post 'translate?q=Hello&source=en&target=es')"
show detect-form "$(post detect -F 'q=Bonjour tout le monde!')"
show code "$(json translate '{"q": "Hello", "source": "EN", "target": "es-ES"}')"
printf 'Hello. How are you?\n' > "$folder/note.txt"
answer=$(post translate_file -F "file=@$folder/note.txt" -F source=en -F target=es)
show file "$answer"
show download "$(curl -sS --fail "$(sed 's/.*"translatedFileUrl":"\([^"]*\)".*/\1/' <<< "$answer")")"
show unknown "$(json translate '{"q": "Hello", "source": "en", "target": "xx"}' || true)"
show suggest "$(json suggest '{"q": "Hello", "s": "Hola", "source": "en", "target": "es"}' || true)"
