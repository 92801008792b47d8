/*
 * virsh-trace-status.c: The command "trace-status"
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace.h"
#include "virsh-trace-answer.h"
#include "virsh-trace-each.h"
#include "virsh-trace-option.h"
#include "virsh-trace-text.h"
#include "virsh-util.h"

#include "virbuffer.h"
#include "vsh-table.h"

const vshCmdInfo info_trace_status = {
    .help = N_("show the trace sessions of domains"),
    .desc = N_("Show the sessions of a domain, or of all running ones: their "
               "owners, and what they have recorded."),
};

const vshCmdOptDef opts_trace_status[] = {
    VIRSH_TRACE_OPT_DOMAINS(VIR_CONNECT_LIST_DOMAINS_ACTIVE),
    VIRSH_TRACE_OPT_SESSION(N_("show the details of this session")),
    VIRSH_TRACE_OPT("vcpus", BOOL, NULL,
                    N_("show the counters of the domain's device for each vCPU")),
    VIRSH_TRACE_OPT_JSON,
    VIRSH_TRACE_OPT("watch", BOOL, NULL,
                    N_("repeat until all sessions have ended, or until an interrupt")),
    VIRSH_TRACE_OPT("interval", INT, NULL,
                    N_("with --watch, seconds between two outputs (default: 1)")),
    {.name = NULL}
};

/*
 * A session in detail
 */

static void
virshTracePrintFact(vshControl *ctl,
                    const char *title,
                    const char *value)
{
    if (value && *value) {
        g_autofree char *quoted = virshTraceQuote(value);

        vshPrint(ctl, "%-15s %s\n", title, quoted);
    }
}

/* The following return a member as text; NULL if it is not there. */

/* A string, or a number as it is */
static char *
virshTraceMember(virJSONValue *object,
                 const char *name)
{
    virJSONValue *value = virJSONValueObjectGet(object, name);
    const char *string;

    if (!value)
        return NULL;

    if (!(string = virJSONValueGetString(value)))
        string = virJSONValueGetNumberString(value);

    return g_strdup(string);
}

/* Values of an array, in one line; those of CR3 are addresses. */
static char *
virshTraceValues(virJSONValue *object,
                 const char *name)
{
    g_auto(virBuffer) buf = VIR_BUFFER_INITIALIZER;
    virJSONValue *array;
    size_t n = virshTraceCount(object, name, &array);
    size_t i;

    for (i = 0; i < n; i++) {
        virJSONValue *value = virJSONValueArrayGet(array, i);
        const char *text = virJSONValueGetString(value);
        unsigned long long number;

        if (text && *text)
            virBufferAsprintf(&buf, "%s,", text);
        else if (virJSONValueGetNumberUlong(value, &number) == 0)
            virBufferAsprintf(&buf, STREQ(name, "cr3") ? "0x%llx," : "%llu,", number);
    }
    virBufferTrim(&buf, ",");

    return virBufferContentAndReset(&buf);
}

static char *
virshTraceBytes(virJSONValue *object,
                const char *name)
{
    if (!virJSONValueObjectHasKey(object, name))
        return NULL;

    return virshTraceSizeText(object, name);
}

static char *
virshTraceNanoseconds(virJSONValue *object,
                      const char *name)
{
    if (!virJSONValueObjectHasKey(object, name))
        return NULL;

    return g_strdup_printf("%.3f s", virshTraceNumber(object, name) / 1e9);
}

static char *
virshTraceSeconds(virJSONValue *object,
                  const char *name)
{
    double seconds;

    if (virJSONValueObjectGetNumberDouble(object, name, &seconds) < 0)
        return NULL;

    return g_strdup_printf("%g s", seconds);
}

/* How much a session of last branches keeps */
static char *
virshTraceKept(virJSONValue *object,
               const char *name)
{
    virJSONValue *size = virJSONValueObjectGetObject(object, name);
    unsigned long long number;

    if (!size)
        return NULL;

    if (virJSONValueObjectGetNumberUlong(size, "records", &number) == 0)
        return g_strdup_printf(_("%1$llu branches"), number);

    if (virJSONValueObjectGetNumberUlong(size, "seconds", &number) == 0)
        return g_strdup_printf(_("%1$llu s"), number);

    return virshTraceBytes(size, "bytes");
}

typedef struct _virshTraceFact virshTraceFact;
struct _virshTraceFact {
    const char *title;
    const char *name;
    char *(*text)(virJSONValue *object, const char *name);
};

/* How a session was started */
static const virshTraceFact virshTraceOptions[] = {
    { N_("Session:"), "session", virshTraceMember },
    { N_("Owner:"), "owner", virshTraceMember },
    { N_("State:"), "state", virshTraceMember },
    { N_("Mode:"), "mode", virshTraceMember },
    { N_("File:"), "file", virshTraceMember },
    { N_("Folder:"), "folder", virshTraceMember },
    { N_("Branches:"), "privilege", virshTraceMember },
    { N_("vCPUs:"), "vcpus", virshTraceValues },
    { N_("CR3:"), "cr3", virshTraceValues },
    { N_("Processes:"), "processes", virshTraceValues },
    { N_("Overflow:"), "overflow", virshTraceMember },
    { N_("Keeps:"), "size", virshTraceKept },
    { N_("Split:"), "split", virshTraceBytes },
    { N_("Duration:"), "duration", virshTraceSeconds },
};

/* What has become of it */
static const virshTraceFact virshTraceProgress[] = {
    { N_("Started:"), "started", virshTraceMember },
    { N_("Ended:"), "ended", virshTraceMember },
    { N_("Why:"), "why", virshTraceMember },
    { N_("Recorded:"), "records", virshTraceMember },
    { N_("Left out:"), "filtered", virshTraceMember },
    { N_("Lost:"), "lost", virshTraceMember },
    { N_("Waited:"), "paused-ns", virshTraceNanoseconds },
    { N_("Limited:"), "limited-ns", virshTraceNanoseconds },
    { N_("CPU time:"), "cpu-ns", virshTraceNanoseconds },
    { N_("Size:"), "bytes", virshTraceBytes },
};

static void
virshTracePrintFacts(vshControl *ctl,
                     virJSONValue *info,
                     const virshTraceFact *facts,
                     size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        g_autofree char *text = facts[i].text(info, facts[i].name);

        virshTracePrintFact(ctl, _(facts[i].title), text);
    }
}

/* One line for each: "nginx:foo, dump, hits 1: 0 places" */
static void
virshTracePrintTriggers(vshControl *ctl,
                        virJSONValue *session)
{
    virJSONValue *triggers;
    size_t n = virshTraceCount(session, "triggers", &triggers);
    size_t i;

    for (i = 0; i < n; i++) {
        virJSONValue *one = virJSONValueArrayGet(triggers, i);
        g_autofree char *at = virshTraceGetText(one, "at");
        g_autofree char *action = virshTraceGetText(one, "do");
        g_autofree char *where = NULL;
        g_autofree char *text = NULL;
        unsigned long long places;
        double longer;

        if (virJSONValueObjectGetNumberDouble(one, "longer", &longer) == 0) {
            where = g_strdup_printf(_("%1$s, longer than %2$g s"), at, longer);
            g_free(at);
            at = g_steal_pointer(&where);
        }

        if (virJSONValueObjectGetNumberUlong(one, "places", &places) == 0) {
            text = g_strdup_printf(_("%1$s, %2$s, hits %3$llu: %4$llu places"),
                                   at, action, virshTraceNumber(one, "hits"),
                                   places);
        } else {
            text = g_strdup_printf(_("%1$s, %2$s, hits %3$llu"), at, action,
                                   virshTraceNumber(one, "hits"));
        }
        virshTracePrintFact(ctl, _("Trigger:"), text);
    }
}

static void
virshTracePrintSession(vshControl *ctl,
                       virJSONValue *info)
{
    virshTracePrintFacts(ctl, info, virshTraceOptions,
                         G_N_ELEMENTS(virshTraceOptions));
    virshTracePrintTriggers(ctl, info);
    virshTracePrintFacts(ctl, info, virshTraceProgress,
                         G_N_ELEMENTS(virshTraceProgress));
}

/*
 * The device's counters
 */

/* Returns 1 if the domain is being traced, 0 if not, or -1 on error. */
static int
virshTracePrintVcpus(vshControl *ctl,
                     virDomainPtr dom)
{
    static const char *const counters[] = {
        "cpu-index", "records", "drained", "lost", "paused-ns",
    };
    g_autoptr(vshTable) table = NULL;
    g_autoptr(virJSONValue) info = NULL;
    virJSONValue *vcpus;
    size_t n;
    size_t i;

    if (!(info = virshTraceQuery(ctl, dom, NULL)))
        return -1;

    if (!(table = vshTableNew(_("vCPU"), _("State"), _("Recorded"),
                              _("Drained"), _("Lost"), _("Waited"), NULL)))
        return -1;

    n = virshTraceCount(info, "vcpus", &vcpus);
    for (i = 0; i < n; i++) {
        virJSONValue *vcpu = virJSONValueArrayGet(vcpus, i);
        g_autofree char *state = virshTraceQuote(virshTraceState(vcpu));
        g_auto(GStrv) texts = g_new0(char *, G_N_ELEMENTS(counters) + 1);
        size_t j;

        for (j = 0; j < G_N_ELEMENTS(counters); j++) {
            unsigned long long value;

            if (virJSONValueObjectGetNumberUlong(vcpu, counters[j], &value) < 0) {
                vshError(ctl, "%s", _("the reply of QEMU is malformed"));
                return -1;
            }

            if (STREQ(counters[j], "paused-ns"))
                texts[j] = g_strdup_printf("%.3f s", value / 1e9);
            else
                texts[j] = g_strdup_printf("%llu", value);
        }

        if (vshTableRowAppend(table, texts[0], state, texts[1], texts[2],
                              texts[3], texts[4], NULL) < 0)
            return -1;
    }

    virshTracePrintFact(ctl, _("State:"), virshTraceState(info));
    vshPrint(ctl, "\n");
    vshTablePrintToStdout(table, ctl);
    return STRNEQ(virshTraceState(info), "inactive");
}

/*
 * All sessions
 */

/* What virshTraceEach() prints, or fills for a table */
typedef struct _virshTraceSessions virshTraceSessions;
struct _virshTraceSessions {
    vshControl *ctl;
    const char *session; /* print its details */
    bool json;
    vshTable *table;
    int active; /* sessions that have not ended */
};

static virJSONValue *
virshTraceStatusAsk(vshControl *ctl,
                    virDomainPtr dom,
                    virshTraceError *err,
                    void *opaque)
{
    virshTraceSessions *s = opaque;

    return virshTraceAsk(ctl, dom, err, "s:do", "status", "S:session", s->session,
                         NULL);
}

static int
virshTraceAddSession(vshTable *table,
                     virDomainPtr dom,
                     virJSONValue *info)
{
    static const char *const names[] = { "session", "owner", "mode", "file" };
    g_autofree char *domain = virshTraceQuote(virDomainGetName(dom));
    g_autofree char *state = virshTraceQuote(virshTraceState(info));
    g_autofree char *records = g_strdup_printf("%llu", virshTraceNumber(info, "records"));
    g_autofree char *lost = g_strdup_printf("%llu", virshTraceNumber(info, "lost"));
    g_autofree char *size = virshTraceSizeText(info, "bytes");
    g_auto(GStrv) fields = virshTraceFields(info, names, G_N_ELEMENTS(names));

    return vshTableRowAppend(table, domain, fields[0], fields[1], state,
                             fields[2], records, lost, size, fields[3], NULL);
}

static int
virshTraceStatusHandle(virDomainPtr dom,
                       virJSONValue *info,
                       void *opaque)
{
    virshTraceSessions *s = opaque;
    virJSONValue *sessions;
    size_t n = virshTraceCount(info, "sessions", &sessions);
    size_t i;

    for (i = 0; i < n; i++) {
        virJSONValue *one = virJSONValueArrayGet(sessions, i);

        s->active += !virshTraceHasEnded(one);
        if (s->json)
            continue;
        if (s->session) {
            if (i)
                vshPrint(s->ctl, "\n");
            virshTracePrintSession(s->ctl, one);
        } else if (virshTraceAddSession(s->table, dom, one) < 0) {
            return -1;
        }
    }

    return 0;
}

/* Print the sessions once.  Returns the number of those that have not ended, or
 * -1 on error. */
static int
virshTracePrintSessions(vshControl *ctl,
                        const vshCmd *cmd,
                        const char *session,
                        bool *failed)
{
    g_autoptr(vshTable) table = NULL;
    virshTraceSessions s = {
        .ctl = ctl,
        .session = session,
        .json = vshCommandOptBool(cmd, "json"),
    };

    if (!(table = vshTableNew(_("Domain"), _("Session"), _("Owner"),
                              _("State"), _("Mode"), _("Recorded"), _("Lost"),
                              _("Size"), _("File"), NULL)))
        return -1;

    s.table = table;
    if (virshTraceEach(ctl, cmd, virshTraceStatusAsk, virshTraceStatusHandle,
                       &s, failed) < 0)
        return -1;

    if (!s.json && !session)
        vshTablePrintToStdout(table, ctl);

    return s.active;
}

static int
virshTracePrint(vshControl *ctl,
                const vshCmd *cmd,
                const char *session,
                bool *failed)
{
    g_autoptr(virshDomain) dom = NULL;
    int active = -1;

    *failed = false;
    if (!vshCommandOptBool(cmd, "vcpus"))
        active = virshTracePrintSessions(ctl, cmd, session, failed);
    else if ((dom = virshCommandOptDomain(ctl, cmd, NULL)))
        active = virshTracePrintVcpus(ctl, dom);

    fflush(stdout);
    return active;
}

bool
cmdTraceStatus(vshControl *ctl, const vshCmd *cmd)
{
    unsigned int interval = 1;
    const char *session = NULL;
    bool failed = false;
    int active;

    VSH_REQUIRE_OPTION("interval", "watch");
    VSH_REQUIRE_OPTION("session", "domain");
    VSH_REQUIRE_OPTION("vcpus", "domain");
    VSH_EXCLUSIVE_OPTIONS("vcpus", "json");
    VSH_EXCLUSIVE_OPTIONS("vcpus", "session");

    if (vshCommandOptString(ctl, cmd, "session", &session) < 0 ||
        vshCommandOptUInt(ctl, cmd, "interval", &interval) < 0)
        return false;

    if (interval == 0 || interval > INT_MAX / 1000) {
        vshError(ctl, _("an interval of %1$u seconds is out of range"),
                 interval);
        return false;
    }

    active = virshTracePrint(ctl, cmd, session, &failed);
    if (!vshCommandOptBool(cmd, "watch") || active <= 0)
        return active >= 0 && !failed;

    if (vshEventStart(ctl, interval * 1000) < 0)
        return false;

    while (active > 0) {
        int event = vshEventWait(ctl);

        if (event != VSH_EVENT_TIMEOUT) {
            active = event < 0 ? -1 : 0;
            break;
        }

        if (vshCommandOptBool(cmd, "domain")) {
            g_autoptr(virshDomain) dom = virshCommandOptDomain(ctl, cmd, NULL);

            if (!dom || virDomainIsActive(dom) == 0) {
                vshResetLibvirtError();
                vshPrintExtra(ctl, "%s", _("The domain has ended, and its sessions with it\n"));
                active = 0;
                break;
            }
        }

        active = virshTracePrint(ctl, cmd, session, &failed);
    }

    vshEventCleanup(ctl);
    return active >= 0 && !failed;
}
