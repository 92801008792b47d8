/*
 * virsh-trace-start.c: The command "trace-start"
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace.h"
#include "virsh-trace-agent.h"
#include "virsh-trace-answer.h"
#include "virsh-trace-end.h"
#include "virsh-trace-option.h"
#include "virsh-trace-session.h"
#include "virsh-trace-text.h"
#include "virsh-trace-wait.h"
#include "virsh-util.h"

#include "virbitmap.h"
#include "virstring.h"
#include "virutil.h"

/* The limits of QEMU's branch-trace device */
#define VIRSH_TRACE_MAX_VCPUS 1024
#define VIRSH_TRACE_MAX_CR3S 64

/* How often, and how many times, to ask whether something was found */
#define VIRSH_TRACE_FOUND_POLL_US 200000
#define VIRSH_TRACE_FOUND_POLLS 5

const char *const virshTraceOverflows[] = { "pause", "drop", "overwrite", NULL };
const char *const virshTraceModes[] = { "continuous", "last", NULL };
const char *const virshTraceNames[] = { "auto", "all", "off", NULL };
static const char *const virshTraceActions[] = { "start", "stop", "dump", NULL };

const vshCmdInfo info_trace_start = {
    .help = N_("start tracing the branches of a domain"),
    .desc = N_("Record each branch that a running domain takes into a file "
               "on the domain's host. The domain needs a branch-trace "
               "device."),
};

const vshCmdOptDef opts_trace_start[] = {
    VIRSH_COMMON_OPT_DOMAIN_FULL(VIR_CONNECT_LIST_DOMAINS_ACTIVE),
    VIRSH_TRACE_OPT_FILE,
    VIRSH_TRACE_OPT("session", STRING, virshCompleteEmpty,
                    N_("name of the session (default: name of the user)")),
    VIRSH_TRACE_OPT("vcpus", STRING, virshTraceVcpusCompleter,
                    N_("trace these vCPUs, such as 0,2-3 (default: all)")),
    VIRSH_TRACE_OPT("user", BOOL, NULL, N_("trace branches in user mode")),
    VIRSH_TRACE_OPT("kernel", BOOL, NULL,
                    N_("trace branches in kernel mode (default: both)")),
    VIRSH_TRACE_OPT("mode", STRING, virshTraceModeCompleter,
                    N_("continuous: write all branches; last: keep the last ones, as many as --size says, for trace-dump (default: continuous)")),
    VIRSH_TRACE_OPT("size", STRING, virshCompleteEmpty,
                    N_("with --mode last, how much to keep: 64MiB, 30s (or min, h), or 1000000records")),
    VIRSH_TRACE_OPT("split", INT, NULL,
                    N_("size at which to continue in another file, as scaled integer (default: bytes)")),
    VIRSH_TRACE_OPT("overflow", STRING, virshTraceOverflowCompleter,
                    N_("when the buffer is full: pause the vCPU, drop new records, or overwrite old ones (default: pause)")),
    VIRSH_TRACE_OPT("names", STRING, virshTraceNameCompleter,
                    N_("names of symbols and processes, read from the domain's memory: auto, all (the domain waits until each process is known) or off (default: auto)")),
    VIRSH_TRACE_OPT("duration", STRING, virshCompleteEmpty,
                    N_("end the session after this time: seconds, or 30s, 5min or 1h")),
    VIRSH_TRACE_OPT("wait", BOOL, NULL,
                    N_("wait for the end of the session; on interrupt, stop it")),
    VIRSH_TRACE_OPT("verbose", BOOL, NULL,
                    N_("with --wait, display the progress")),
    VIRSH_TRACE_OPT("process", ARGV, virshCompleteEmpty,
                    N_("trace only this process, by name or PID; can be repeated (default: all)")),
    VIRSH_TRACE_OPT("cr3", ARGV, virshCompleteEmpty,
                    N_("trace only this address space, by its value of CR3; can be repeated (default: all)")),
    VIRSH_TRACE_OPT("trigger", ARGV, virshCompleteEmpty,
                    N_("PROCESS:SYMBOL, kernel:SYMBOL, PROCESS:kernel:SYMBOL or mark:NAME[,do=start|stop|dump][,hits=N][,longer=TIME]: start, stop or dump when this is executed, or takes longer than TIME, for the Nth time; can be repeated")),
    {.name = NULL}
};

/* Get an option whose value is one of @words.  Returns 0, with NULL if the
 * option is not given, or -1 on error. */
static int
virshTraceGetWord(vshControl *ctl,
                  const vshCmd *cmd,
                  const char *option,
                  const char *const *words,
                  const char **word)
{
    if (vshCommandOptString(ctl, cmd, option, word) < 0)
        return -1;

    if (*word && !g_strv_contains(words, *word)) {
        g_autofree char *list = g_strjoinv(", ", (char **) words);

        vshError(ctl, _("--%1$s: '%2$s' is not one of: %3$s"),
                 option, *word, list);
        return -1;
    }

    return 0;
}

/* The following return 0, with NULL if the option is not given, or -1. */
static int
virshTraceGetVcpus(vshControl *ctl,
                   const vshCmd *cmd,
                   virBitmap **bitmap)
{
    const char *vcpus = NULL;

    if (vshCommandOptString(ctl, cmd, "vcpus", &vcpus) < 0)
        return -1;

    if (!vcpus)
        return 0;

    if (virBitmapParse(vcpus, bitmap, VIRSH_TRACE_MAX_VCPUS) < 0 ||
        virBitmapIsAllClear(*bitmap)) {
        vshResetLibvirtError();
        vshError(ctl, _("'%1$s' is not a list of vCPUs, such as 0,2-3"), vcpus);
        return -1;
    }

    return 0;
}

/* Parses one value; NULL with an error reported.  @last is of --mode last. */
typedef virJSONValue *(*virshTraceParse)(vshControl *ctl,
                                         const char *text,
                                         bool last);

/* An option that can be repeated */
static int
virshTraceGetArray(vshControl *ctl,
                   const vshCmd *cmd,
                   const char *option,
                   virshTraceParse parse,
                   bool last,
                   virJSONValue **array)
{
    const char **text = vshCommandOptArgv(cmd, option);

    if (!text)
        return 0;

    *array = virJSONValueNewArray();
    for (; *text; text++) {
        g_autoptr(virJSONValue) value = NULL;

        if (!(value = parse(ctl, *text, last)))
            return -1;

        if (virJSONValueArrayAppend(*array, &value) < 0) {
            vshSaveLibvirtError();
            return -1;
        }
    }

    return 0;
}

static virJSONValue *
virshTraceParseCr3(vshControl *ctl,
                   const char *text,
                   bool last G_GNUC_UNUSED)
{
    unsigned long long value;

    if (virStrToLong_ullp(text, NULL, 0, &value) < 0) {
        vshError(ctl, _("'%1$s' is not a value of CR3, such as 0x1234000"),
                 text);
        return NULL;
    }

    return virJSONValueNewNumberUlong(value);
}

static virJSONValue *
virshTraceParseProcess(vshControl *ctl G_GNUC_UNUSED,
                       const char *text,
                       bool last G_GNUC_UNUSED)
{
    unsigned int number;

    if (virStrToLong_uip(text, NULL, 10, &number) == 0)
        return virJSONValueNewNumberUint(number);

    return virJSONValueNewString(g_strdup(text));
}

/* Units of numbers that are not bytes */
static const struct {
    const char *unit;
    const char *what;
    unsigned long long scale;
} virshTraceUnits[] = {
    { "s", "seconds", 1 },
    { "min", "seconds", 60 },
    { "h", "seconds", 3600 },
    { "records", "records", 1 },
};

/**
 * virshTraceParseUnit:
 * @text: a number, with a unit or not
 * @value: gets the number, multiplied by the unit
 * @what: gets what the number counts; NULL if the unit is unknown
 * @end: gets the start of the unit
 *
 * Returns 0, or -1 if it is not a number or too large.
 */
static int
virshTraceParseUnit(const char *text,
                    unsigned long long *value,
                    const char **what,
                    char **end)
{
    size_t i;

    *what = NULL;
    if (virStrToLong_ullp(text, end, 10, value) < 0)
        return -1;

    for (i = 0; i < G_N_ELEMENTS(virshTraceUnits); i++) {
        if (STRNEQ(*end, virshTraceUnits[i].unit))
            continue;

        if (*value > LLONG_MAX / virshTraceUnits[i].scale)
            return -1;
        *value *= virshTraceUnits[i].scale;
        *what = virshTraceUnits[i].what;
    }

    return 0;
}

static int
virshTraceGetSize(vshControl *ctl,
                  const vshCmd *cmd,
                  virJSONValue **object)
{
    const char *what = NULL;
    const char *size = NULL;
    unsigned long long value;
    char *end;

    if (vshCommandOptString(ctl, cmd, "size", &size) < 0)
        return -1;

    if (!size)
        return 0;

    if (virshTraceParseUnit(size, &value, &what, &end) < 0)
        goto malformed;

    if (STREQ(end, "m")) {
        vshError(ctl, _("--size: '%1$s' is ambiguous: write %2$llumin for minutes, or %2$lluMiB"),
                 size, value);
        return -1;
    }

    if ((!what && virScaleInteger(&value, end, 1, LLONG_MAX) < 0) ||
        value == 0)
        goto malformed;

    *object = virJSONValueNewObject();
    if (virJSONValueObjectAppendNumberUlong(*object, what ? what : "bytes",
                                            value) < 0) {
        vshSaveLibvirtError();
        return -1;
    }

    return 0;

 malformed:
    vshResetLibvirtError();
    vshError(ctl,
             _("--size: '%1$s' is not a number of bytes, such as 64MiB, of seconds, such as 30s, or of branches, such as 1000000records"),
             size);
    return -1;
}

static int
virshTraceGetDuration(vshControl *ctl,
                      const vshCmd *cmd,
                      unsigned long long *seconds)
{
    const char *duration = NULL;
    const char *what;
    char *end;

    if (vshCommandOptString(ctl, cmd, "duration", &duration) < 0)
        return -1;

    if (!duration)
        return 0;

    if (virshTraceParseUnit(duration, seconds, &what, &end) < 0 ||
        (*end && STRNEQ(end, "m") && STRNEQ_NULLABLE(what, "seconds"))) {
        vshError(ctl, _("--duration: '%1$s' is not a number of seconds, or a time such as 30s, 5min or 1h"),
                 duration);
        return -1;
    }

    if (STREQ(end, "m")) {
        vshError(ctl, _("--duration: '%1$s' is ambiguous: write %2$llumin for minutes"),
                 duration, *seconds);
        return -1;
    }

    if (!*seconds) {
        vshError(ctl, "%s", _("a duration of 0 seconds is too short"));
        return -1;
    }

    return 0;
}

/* "500ms", "2s"; 0 if it is not a time */
static double
virshTraceParseTime(const char *text)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = { { "ms", 0.001 }, { "s", 1 }, { "min", 60 }, { "h", 3600 } };
    unsigned long long value;
    char *end;
    size_t i;

    if (virStrToLong_ullp(text, &end, 10, &value) < 0)
        return 0;

    for (i = 0; i < G_N_ELEMENTS(units); i++) {
        if (STREQ(end, units[i].unit))
            return value * units[i].seconds;
    }

    return 0;
}

/* "PROCESS:SYMBOL,do=...,hits=N,longer=TIME"; the default with --mode last is to
 * dump. */
static virJSONValue *
virshTraceParseTrigger(vshControl *ctl,
                       const char *text,
                       bool last)
{
    g_autoptr(virJSONValue) trigger = NULL;
    g_auto(GStrv) fields = NULL;
    const char *action = last ? "dump" : "start";
    unsigned long long hits = 1;
    double longer = 0;
    const char *colon;
    size_t i;

    vshStringToArray(text, &fields);
    colon = strchr(fields[0], ':');
    if (!colon || colon == fields[0] ||
        (!colon[1] && STRNEQ(fields[0], "mark:")))
        goto malformed;

    for (i = 1; fields[i]; i++) {
        const char *value;

        if ((value = STRSKIP(fields[i], "do=")) &&
            g_strv_contains(virshTraceActions, value)) {
            action = value;
        } else if ((value = STRSKIP(fields[i], "longer="))) {
            if ((longer = virshTraceParseTime(value)) == 0)
                goto malformed;
        } else if (!(value = STRSKIP(fields[i], "hits=")) ||
                   virStrToLong_ullp(value, NULL, 10, &hits) < 0 ||
                   hits == 0) {
            goto malformed;
        }
    }

    if (virJSONValueObjectAdd(&trigger,
                              "s:at", fields[0],
                              "s:do", action,
                              "P:hits", hits,
                              NULL) < 0 ||
        (longer > 0 &&
         virJSONValueObjectAppendNumberDouble(trigger, "longer", longer) < 0)) {
        vshSaveLibvirtError();
        return NULL;
    }

    return g_steal_pointer(&trigger);

 malformed:
    vshError(ctl,
             _("--trigger: '%1$s' is not PROCESS:SYMBOL, kernel:SYMBOL, PROCESS:kernel:SYMBOL or mark:NAME, optionally with ',do=' start, stop or dump, ',hits=' a number and ',longer=' a time such as 500ms"),
             text);
    return NULL;
}

/* The agent's command for "trace-start"; NULL with an error reported */
static virJSONValue *
virshTraceStartCommand(vshControl *ctl,
                       const vshCmd *cmd)
{
    g_autoptr(virJSONValue) command = NULL;
    g_autoptr(virJSONValue) processes = NULL;
    g_autoptr(virJSONValue) triggers = NULL;
    g_autoptr(virJSONValue) cr3s = NULL;
    g_autoptr(virJSONValue) size = NULL;
    g_autoptr(virBitmap) vcpus = NULL;
    g_autofree char *owner = virshTraceOwner();
    const char *session = NULL;
    const char *file = NULL;
    const char *mode = NULL;
    const char *overflow = NULL;
    const char *names = NULL;
    const char *privilege = NULL;
    bool user = vshCommandOptBool(cmd, "user");
    unsigned long long split = 0;
    unsigned long long duration = 0;
    bool last;

    if (user != vshCommandOptBool(cmd, "kernel"))
        privilege = user ? "user" : "kernel";

    if (vshCommandOptString(ctl, cmd, "session", &session) < 0 ||
        vshCommandOptString(ctl, cmd, "file", &file) < 0 ||
        virshTraceGetWord(ctl, cmd, "mode", virshTraceModes, &mode) < 0 ||
        virshTraceGetWord(ctl, cmd, "overflow", virshTraceOverflows,
                          &overflow) < 0 ||
        virshTraceGetWord(ctl, cmd, "names", virshTraceNames, &names) < 0 ||
        vshCommandOptScaledInt(ctl, cmd, "split", &split, 1, LLONG_MAX) < 0 ||
        virshTraceGetVcpus(ctl, cmd, &vcpus) < 0 ||
        virshTraceGetArray(ctl, cmd, "cr3", virshTraceParseCr3, false,
                           &cr3s) < 0 ||
        virshTraceGetArray(ctl, cmd, "process", virshTraceParseProcess, false,
                           &processes) < 0 ||
        virshTraceGetSize(ctl, cmd, &size) < 0 ||
        virshTraceGetDuration(ctl, cmd, &duration) < 0)
        return NULL;

    if (cr3s && virJSONValueArraySize(cr3s) > VIRSH_TRACE_MAX_CR3S) {
        vshError(ctl, _("at most %1$d values of CR3 can be given"),
                 VIRSH_TRACE_MAX_CR3S);
        return NULL;
    }

    last = STREQ_NULLABLE(mode, "last");
    if (last && !size) {
        vshError(ctl, "%s", _("--mode last needs --size, how much to keep"));
        return NULL;
    }
    if (size && !last) {
        vshError(ctl, "%s", _("--size needs --mode last"));
        return NULL;
    }

    if (virshTraceGetArray(ctl, cmd, "trigger", virshTraceParseTrigger, last,
                           &triggers) < 0)
        return NULL;

    if (virJSONValueObjectAdd(&command,
                              "s:do", "start",
                              "s:session", session ? session : g_get_user_name(),
                              "S:file", file,
                              "s:owner", owner,
                              "M:vcpus", vcpus,
                              "A:processes", &processes,
                              "A:cr3", &cr3s,
                              "S:privilege", privilege,
                              "S:mode", mode,
                              "A:size", &size,
                              "S:overflow", overflow,
                              "P:duration", duration,
                              "A:triggers", &triggers,
                              "S:names", names,
                              "P:split", split,
                              NULL) < 0) {
        vshSaveLibvirtError();
        return NULL;
    }

    return g_steal_pointer(&command);
}

/* What of its processes and symbols a session has not found, or NULL */
static char *
virshTraceMissing(virJSONValue *info)
{
    virJSONValue *sessions;
    virJSONValue *session = NULL;
    virJSONValue *missing;
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    size_t n = virshTraceCount(info, "sessions", &sessions);
    size_t i;

    /* Others of this name have ended. */
    for (i = 0; i < n; i++) {
        virJSONValue *one = virJSONValueArrayGet(sessions, i);

        if (!virshTraceHasEnded(one))
            session = one;
    }
    if (!session)
        return NULL;

    n = virshTraceCount(session, "not-found", &missing);
    for (i = 0; i < n; i++) {
        virJSONValue *one = virJSONValueArrayGet(missing, i);
        const char *name = virJSONValueGetString(one);

        if (name)
            g_ptr_array_add(names, (char *)name);
    }
    if (names->len == 0)
        return NULL;

    g_ptr_array_add(names, NULL);
    return g_strjoinv(", ", (char **)names->pdata);
}

/* Wait for a moment until a session that has begun has found all, and say what
 * it has not */
static void
virshTraceAwaitFound(vshControl *ctl,
                     virDomainPtr dom,
                     const char *session)
{
    g_autofree char *missing = NULL;
    int i;

    for (i = 0; i < VIRSH_TRACE_FOUND_POLLS; i++) {
        g_autoptr(virJSONValue) info = NULL;
        g_auto(virshTraceError) err = { 0 };

        g_usleep(VIRSH_TRACE_FOUND_POLL_US);
        if (!(info = virshTraceAsk(ctl, dom, &err, "s:do", "status",
                                   "s:session", session, NULL)))
            return;

        g_free(missing);
        if (!(missing = virshTraceMissing(info)))
            return;
    }

    virshTraceSay(ctl, _("Not found in the guest so far, and waited for: %1$s"),
                  missing);
}

bool
cmdTraceStart(vshControl *ctl, const vshCmd *cmd)
{
    g_autoptr(virshDomain) dom = NULL;
    g_autoptr(virJSONValue) command = NULL;
    g_autoptr(virJSONValue) started = NULL;
    g_autofree char *session = NULL;
    g_autofree char *file = NULL;
    bool wait = vshCommandOptBool(cmd, "wait");
    bool named = vshCommandOptBool(cmd, "process") ||
        vshCommandOptBool(cmd, "trigger");
    bool ret = false;

    VSH_REQUIRE_OPTION("verbose", "wait");

    if (!(command = virshTraceStartCommand(ctl, cmd)))
        return false;

    session = g_strdup(virJSONValueObjectGetString(command, "session"));

    if (!(dom = virshCommandOptDomain(ctl, cmd, NULL)))
        return false;

    /* An interrupt while the session starts stops it, too. */
    if (wait && vshEventStart(ctl, VIRSH_TRACE_POLL_MS) < 0)
        return false;

    if (!(started = virshTraceCommand(ctl, dom, NULL, &command)))
        goto cleanup;

    file = virshTracePath(started);
    virshTraceSay(ctl, _("Domain '%1$s' is being traced by session '%2$s'"),
                  virDomainGetName(dom), session);
    if (*file)
        virshTraceSay(ctl, _("Trace: %1$s"), file);
    fflush(stdout);

    if (named)
        virshTraceAwaitFound(ctl, dom, session);

    ret = true;
    if (wait) {
        fflush(stdout);
        ret = virshTraceEndSession(ctl, &dom, session,
                                   vshCommandOptBool(cmd, "verbose"));
    }

 cleanup:
    if (wait)
        vshEventCleanup(ctl);
    return ret;
}
