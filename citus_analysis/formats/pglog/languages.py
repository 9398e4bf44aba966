"""Words of server logs in the languages of PostgreSQL's message catalogues, and the language of a log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final

# Words of server logs in the languages of PostgreSQL's message catalogues (`lc_messages`), for what is read of them.
#
# In each language: the severities in the order of :data:`SEVERITIES`; what a duration is called; what stands after it
# and before a statement, `%s` for the name of a prepared one; and beginnings of other messages with the English ones.

SEVERITIES: Final = (
    *("DEBUG", "LOG", "INFO", "NOTICE", "WARNING", "ERROR", "FATAL", "PANIC"),
    *("DETAIL", "HINT", "QUERY", "CONTEXT", "STATEMENT", "LOCATION", "BACKTRACE"),
)
#: Beginnings of messages, in the order of `others` of :class:`Words`.
_OTHERS: Final = (
    *("parameters:", "checkpoint starting:", "checkpoint complete:", "restartpoint starting:"),
    *("connection received: host=", "connection authorized: user=", "replication connection authorized: user="),
    *("connection authenticated: identity=", "disconnection: session time:"),
    *("temporary file: path", "automatic vacuum of table", "automatic analyze of table"),
)


@dataclass(frozen=True)
class Words:
    """The words of a language.

    Attributes:
        severities: by :data:`SEVERITIES`.
        duration: what a duration is called; several, where messages or releases differ.
        statement: what stands before a statement, as a pattern, like the following.
        parse: before one that is parsed.
        bind: before one that is bound.
        execute: before one that is executed.
        fetch: before one of which further rows are fetched.
        others: beginnings of other messages -> the English ones.
    """

    severities: tuple[str, ...]
    duration: tuple[str, ...]
    statement: str
    parse: str
    bind: str
    execute: str
    fetch: str
    others: Mapping[str, str]


def _parse_language_words(severities: str, duration: str, phases: str, others: str) -> Words:
    """Lists separated by bars (patterns of phases: by semicolons); an empty beginning is not translated."""
    pairs = zip(others.split("|"), _OTHERS, strict=True)
    known = {own: english for own, english in pairs if own}
    statement, parse, bind, execute, fetch = phases.split("; ")
    return Words(
        tuple(severities.split("|")),
        tuple(duration.split("|")),
        *(statement, parse, bind, execute, fetch),
        MappingProxyType(known),
    )


LANGUAGES: Final[Mapping[str, Words]] = MappingProxyType(
    {
        "de": _parse_language_words(
            "DEBUG|LOG|INFO|HINWEIS|WARNUNG|FEHLER|FATAL|PANIK|DETAIL|TIPP|ANFRAGE|ZUSAMMENHANG|ANWEISUNG|ORT|BACKTRACE",
            "Dauer",
            "Anweisung; Parsen %s; Binden %s; Ausführen %s; Ausführen Fetch von %s",
            "Parameter:|Checkpoint beginnt:|Checkpoint komplett:|Restart-Punkt beginnt:|Verbindung empfangen: Host=|"
            "Verbindung autorisiert: Benutzer=|Replikationsverbindung autorisiert: Benutzer=|"
            "Verbindung authentifiziert: Identität=|Verbindungsende: Sitzungszeit:|temporäre Datei: Pfad|"
            "automatisches Vacuum der Tabelle|automatisches Analysieren der Tabelle",
        ),
        "es": _parse_language_words(
            "DEBUG|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC|DETALLE|HINT|CONSULTA|CONTEXTO|SENTENCIA|UBICACIÓN|BACKTRACE",
            "duración",
            "sentencia; parse:? %s; bind %s; ejecutar %s; ejecutar fetch desde %s",
            "parámetros:|empezando checkpoint:|checkpoint completado:|empezando restartpoint:|conexión recibida: host=|"
            "conexión autorizada: usuario=|conexión de replicación autorizada: usuario=|"
            "conexión autenticada: identidad=|desconexión: duración de sesión:|archivo temporal: ruta|"
            "vacuum automático de la tabla|análisis automático de la tabla",
        ),
        "fr": _parse_language_words(
            "DEBUG|LOG|INFO|NOTICE|ATTENTION|ERREUR|FATAL|PANIC|DÉTAIL|ASTUCE|REQUÊTE|CONTEXTE|INSTRUCTION|EMPLACEMENT|"
            "PILE D'APPEL",
            "durée",
            "instruction; analyse %s; lien %s; exécute %s; exécute fetch à partir de %s",
            "paramètres :|début du checkpoint :|checkpoint terminé :|début du restartpoint :|connexion reçue : hôte=|"
            "connexion autorisée : utilisateur=|connexion de réplication autorisée : utilisateur=|"
            "connexion authentifiée : identité=|déconnexion : durée de la session :|fichier temporaire : chemin|"
            "VACUUM automatique de la table|ANALYZE automatique de la table",
        ),
        "it": _parse_language_words(
            "DEBUG|LOG|INFO|NOTIFICA|ATTENZIONE|ERRORE|FATALE|PANICO|DETTAGLI|SUGGERIMENTO|QUERY|CONTESTO|ISTRUZIONE|"
            "POSIZIONE|BACKTRACE",
            "durata",
            "istruzione; analisi di %s; bind %s; esecuzione di %s; esecuzione di fetch da %s",
            "parametri:|inizio checkpoint:|checkpoint completato:|inizio del punto di riavvio:|"
            "connessione ricevuta: host=|connessione autorizzata: utente=|connessione di replica autorizzata: utente=|"
            "connessione autenticata: identity=|disconnessione: tempo della sessione:|file temporaneo: percorso|"
            "vacuum automatico della tabella|analisi automatica della tabella",
        ),
        "ja": _parse_language_words(
            "DEBUG|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC|詳細|ヒント|問い合わせ|文脈|文|場所|バックトレース",
            "期間",
            "文; パース ?%s; バインド ?%s; 実行 %s; 取り出し実行 %s",
            "パラメータ:|チェックポイント開始:|チェックポイント完了:|リスタートポイント開始:|"
            "接続を受け付けました: ホスト=|接続の認証完了: ユーザー=|レプリケーション接続の認証完了: ユーザー=|"
            "接続認証完了: 識別名=|接続を切断: セッション時間:|一時ファイル: パス||",
        ),
        "ka": _parse_language_words(
            "გამართვა|ჟურნალი|ინფორმაცია|შეტყობინება|გაფრთხილება|შეცდომა|ფატალური|პანიკა|დეტალები|მინიშნება|მოთხოვნა|"
            "კონტექსტი|ოპერატორი|მდებარეობა|სტეკი",
            "ხანგრძლივობა",
            "(?:გამოსახულება|ოპერატორი); %s-ის დამუშავება; მიბმა %s; გაშვება %s; execute fetch from %s",
            "პარამეტრები:|საკონტროლო წერტილი იწყება:||გადატვირთვის წერტილი დაიწყო:|შემოსული დაკავშირება: ჰოსტი=|"
            "შეერთება ავტორიზებულია: მომხმარებელი=|რეპლიკაციის შეერთება ავტორიზებულია: მომხმარებელი=|"
            "მიერთება ავთენტიფიცირებულია: იდენტიფიკატორი=||დროებითი ფაილი: ბილიკი||ცხრილის ავტომატური ანალიზი",
        ),
        "ko": _parse_language_words(
            "디버그|로그|정보|알림|경고|오류|치명적오류|손상|상세정보|힌트|쿼리|내용|명령 구문|위치|역추적",
            "실행시간|수행시간|작업시간",
            "명령 구문; %s 구문분석; %s 접속; 쿼리실행 %s; 자료뽑기 %s",
            "매개 변수:|체크포인트 시작:|체크포인트 작업완료:|restartpoint 시작:|접속 수락: host=|연결 인증: user=|"
            "복제 연결 인증: user=|연결 인증됨: 식별자=|연결종료: 세션 시간:|임시 파일: 경로||",
        ),
        "pl": _parse_language_words(
            "DEBUG|DZIENNIK|INFORMACJA|UWAGA|OSTRZEŻENIE|BŁĄD|KATASTROFALNY|PANIKA|SZCZEGÓŁY|PODPOWIEDŹ|ZAPYTANIE|KONTEKST|"
            "WYRAŻENIE|POZYCJA|BACKTRACE",
            "czas trwania",
            "wyrażenie; parsowanie %s; dowiązanie %s; wykonanie %s; wykonanie pobrania z %s",
            "parametry:||||||zautoryzowano połączenie replikacji: użytkownik=||rozłączenie: czas sesji:|"
            "plik tymczasowy: ścieżka||",
        ),
        "pt": _parse_language_words(
            "DEPURAÇÃO|LOG|INFO|NOTA|AVISO|ERRO|FATAL|PÂNICO|DETALHE|DICA|CONSULTA|CONTEXTO|COMANDO|LOCAL|BACKTRACE",
            "duração",
            "comando; análise de %s; ligação %s; executar %s; executar busca de %s",
            "parâmetros:|||||conexão autorizada: usuário=|conexão de replicação autorizada: usuário=|||||",
        ),
        "ru": _parse_language_words(
            "ОТЛАДКА|СООБЩЕНИЕ|ИНФОРМАЦИЯ|ЗАМЕЧАНИЕ|ПРЕДУПРЕЖДЕНИЕ|ОШИБКА|ВАЖНО|ПАНИКА|ПОДРОБНОСТИ|ПОДСКАЗКА|ЗАПРОС|"
            "КОНТЕКСТ|ОПЕРАТОР|ПОЛОЖЕНИЕ|СТЕК",
            "продолжительность",
            "оператор; разбор %s; сообщение Bind %s; выполнение %s; выборка из %s",
            "параметры:|начата контрольная точка:|контрольная точка завершена:|начата точка перезапуска:|"
            "принято подключение: узел=|подключение авторизовано: пользователь=|"
            "подключение для репликации авторизовано: пользователь=|соединение аутентифицировано: идентификатор=|"
            "отключение: время сеанса:|временный файл: путь|автоматическая очистка таблицы|"
            "автоматический анализ таблицы",
        ),
        "sv": _parse_language_words(
            "DEBUG|LOGG|INFO|NOTIS|VARNING|FEL|FATALT|PANIK|DETALJ|TIPS|FRÅGA|KONTEXT|SATS|PLATS|BACKTRACE",
            "varaktighet",
            "sats; parse %s; bind %s; kör %s; kör hämtning från %s",
            "parametrar:|checkpoint startar:|checkpoint klar:|restartpoint startar:|ansluting mottagen: värd=|"
            "anslutning auktoriserad: användare=|replikeringsanslutning auktoriserad: användare=|"
            "anslutning autentiserad: identitet=|nedkoppling: sessionstid:|temporär fil: sökväg|"
            "automatisk vacuum av tabell|automatisk analys av tabell",
        ),
        "uk": _parse_language_words(
            "НАЛАГОДЖЕННЯ|ЗАПИСУВАННЯ|ІНФОРМАЦІЯ|ПОВІДОМЛЕННЯ|ПОПЕРЕДЖЕННЯ|ПОМИЛКА|ФАТАЛЬНО|ПАНІКА|ВІДОМОСТІ|УКАЗІВКА|"
            "ЗАПИТ|КОНТЕКСТ|ІНСТРУКЦІЯ|РОЗТАШУВАННЯ|ВІДСТЕЖУВАТИ",
            "тривалість",
            "оператор; аналізування %s; повідомлення bind %s; виконувати %s; виконати витягнення з %s",
            "параметри:|початок контрольної точки:|контрольна точка завершена:|початок точки перезапуску:|"
            "з'єднання отримано: хост=|підключення авторизовано: користувач=|"
            "підключення для реплікації авторизовано: користувач=|підключення автентифіковано: ідентифікатор=|"
            "відключення: час сеансу:|тимчасовий файл: шлях|автоматичне очищення таблиці|автоматичний аналіз таблиці",
        ),
        "zh": _parse_language_words(
            "调试|日志|信息|注意|警告|错误|致命错误|比致命错误还过分的错误|详细信息|提示|查询|上下文|语句|位置|BACKTRACE",
            "执行时间|持续时间",
            "语句; 解析 ?%s; 绑定 ?%s; 执行 ?%s; 执行FETCH操作 ?%s",
            "参数:||||已接收到连接: 主机=||复制连接已经授权: 用户=||断开连接: 会话时间:|临时文件: 路径|自动清理表|",
        ),
    }
)


@cache
def _list_all_severities() -> tuple[bytes, ...]:
    known = (severity for words in LANGUAGES.values() for severity in words.severities)
    return tuple(word.encode() for word in dict.fromkeys((*SEVERITIES, *known)))


def find_severities(text: bytes) -> list[int]:
    r"""Where the first severity of a server in any language ends in a text; empty if there is none.

    Two blanks follow it, or it follows a process in brackets (RDS).

    Example:
        >>> find_severities("[7] FEHLER:  x".encode()), find_severities(b"ERROR: x")
        ([10], [])
    """
    endings = _list_all_severities()
    for found in _MARK.finditer(text):
        before = text[max(0, found.start() - _LONGEST_SEVERITY) : found.start()].rstrip(b"12345")
        if found[0][:1] == b"]" or before.endswith(endings):
            return [found.start()]
    return []


#: What follows a severity; what precedes one of RDS.
_MARK: Final = re.compile(rb":  (?=\S)|\]:(?=[A-Z]{3,}[1-5]?: )")
_LONGEST_SEVERITY: Final = 40


# The language of a log, by words that no English log has. It is determined for every log, so it must be fast.

_ENGLISH: Final = frozenset(SEVERITIES)
_ENGLISH_PHASES: Final = ("statement", "parse", "bind", "execute")
_ENGLISH_BEGUN: Final = re.compile(r"duration: |statement: |(?:parse|bind|execute) \S+: ")
#: Severities that occur in most logs.
_USUAL: Final = tuple(map(SEVERITIES.index, ("LOG", "ERROR", "WARNING", "DETAIL", "STATEMENT", "FATAL", "HINT")))


# A log is recognised, and its prefix is determined more than once.
@lru_cache(maxsize=4)
def detect_language(head: bytes) -> str:
    r"""The language of the messages, as the first letters of `lc_messages`; empty if it is English, or not known.

    Args:
        head: the beginning of a log.

    Example:
        >>> detect_language("12:00 [7] FEHLER:  x\\n".encode()), detect_language(b"12:00 [7] ERROR:  x\\n")
        ('de', '')
    """
    counts = {
        language: sum(_count(head, word) for word in words) for language, words in _collect_telling_words().items()
    }
    best = max(counts, key=lambda language: counts[language])
    return best if counts[best] else ""


def detect_row_language(rows: Iterable[tuple[str, str]]) -> str:
    """The language of the messages of csvlog or jsonlog; empty if it is English, or not known.

    Args:
        rows: severity and message of some records; the beginning of a message is enough.

    Example:
        >>> detect_row_language([("LOG", "Dauer: 1.250 ms")]), detect_row_language([("LOG", "duration: 1.250 ms")])
        ('de', '')
    """
    known = list(rows)
    english = sum(_ENGLISH_BEGUN.match(message) is not None for _, message in known)
    scores = {}
    for language, words in LANGUAGES.items():
        own, begun = frozenset(words.severities), _compile_message_beginnings(language)
        telling = sum(severity in own - _ENGLISH or begun.match(message) is not None for severity, message in known)
        scores[language] = telling - english - sum(severity in _ENGLISH - own for severity, _ in known)
    best = max(scores, key=lambda language: scores[language])
    return best if scores[best] > 0 else ""


@cache
def _compile_message_beginnings(language: str) -> re.Pattern[str]:
    """How messages of a language begin, of those that are read and that begin otherwise in English."""
    words = LANGUAGES[language]
    own = (words.statement, words.parse, words.bind, words.execute)
    phases = (pattern.replace("%s", r"\S+?") for pattern in own if not pattern.startswith(_ENGLISH_PHASES))
    named = [*map(re.escape, words.duration), *phases]
    others = [re.escape(own) for own, english in words.others.items() if own != english]
    return re.compile("|".join([*(f"{name} ?[:：]" for name in named), *others]))


def _count(head: bytes, word: bytes) -> int:
    if word not in head:
        return 0
    return head.count(word + b": ") + head.count(word + b" : ") + head.count(word + b" :  ")


@cache
def _collect_telling_words() -> dict[str, tuple[bytes, ...]]:
    found = {}
    for language, words in LANGUAGES.items():
        severities = [words.severities[at] for at in _USUAL if words.severities[at] != SEVERITIES[at]]
        beginnings = [own.split(":")[0].strip() for own in words.others if ": " in own or " :" in own]
        found[language] = tuple(word.encode() for word in (*severities, *words.duration, *beginnings))
    return found
