/*
 * virsh-trace-status.c: The command "trace-status"
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace.h"
#include "virsh-trace-each.h"
#include "virsh-trace-option.h"
#include "virsh-trace-text.h"
#include "virsh-util.h"

#include "vsh-table.h"

#include "client/answer.h"
#include "client/session-facts.h"
#include "util/json.h"

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

static void
virshTracePrintFact(void *opaque,
                    const char *title,
                    const char *value)
{
    g_autofree char *quoted = virshTraceQuote(value);

    vshPrint(opaque, "%-15s %s\n", title, quoted);
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
    g_autoptr(JsonObject) info = NULL;
    g_autoptr(GError) error = NULL;
    const char *state;
    size_t i;

    if (!(info = virshTraceQuery(dom, &error))) {
        virshTraceReport(ctl, virDomainGetName(dom), error);
        return -1;
    }

    if (!(table = vshTableNew(_("vCPU"), _("State"), _("Recorded"),
                              _("Drained"), _("Lost"), _("Waited"), NULL)))
        return -1;

    for (i = 0; i < answer_members(info, "vcpus"); i++) {
        JsonObject *vcpu = answer_member(info, "vcpus", i);
        g_autofree char *quoted = NULL;
        g_auto(GStrv) texts = g_new0(char *, G_N_ELEMENTS(counters) + 1);
        size_t j;

        for (j = 0; j < G_N_ELEMENTS(counters); j++) {
            if (!vcpu || !json_object_has_member(vcpu, counters[j])) {
                vshError(ctl, "%s", _("the reply of QEMU is malformed"));
                return -1;
            }

            if (STREQ(counters[j], "paused-ns")) {
                texts[j] = g_strdup_printf("%.3f s",
                                           answer_number(vcpu, counters[j]) / 1e9);
            } else {
                texts[j] = virshTraceNumber(vcpu, counters[j]);
            }
        }

        state = btrail_json_string(vcpu, "state");
        quoted = virshTraceQuote(NULLSTR(state));
        if (vshTableRowAppend(table, texts[0], quoted, texts[1], texts[2],
                              texts[3], texts[4], NULL) < 0)
            return -1;
    }

    state = btrail_json_string(info, "state");
    virshTracePrintFact(ctl, _("State:"), NULLSTR(state));
    vshPrint(ctl, "\n");
    vshTablePrintToStdout(table, ctl);
    return STRNEQ_NULLABLE(state, "inactive");
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

static JsonObject *
virshTraceStatusAsk(vshControl *ctl G_GNUC_UNUSED,
                    virDomainPtr dom,
                    void *opaque,
                    GError **error)
{
    const struct service_client client = virshTraceClient(dom);
    virshTraceSessions *s = opaque;

    return service_client_status(&client, s->session, error);
}

static int
virshTraceAddSession(vshTable *table,
                     virDomainPtr dom,
                     JsonObject *info)
{
    static const char *const names[] = { "session", "owner", "state", "mode", "file" };
    g_autofree char *domain = virshTraceQuote(virDomainGetName(dom));
    g_autofree char *records = virshTraceNumber(info, "records");
    g_autofree char *lost = virshTraceNumber(info, "lost");
    g_autofree char *size = answer_size_text(info, "bytes");
    g_auto(GStrv) fields = virshTraceFields(info, names, G_N_ELEMENTS(names));

    return vshTableRowAppend(table, domain, fields[0], fields[1], fields[2],
                             fields[3], records, lost, size, fields[4], NULL);
}

static int
virshTraceStatusHandle(virDomainPtr dom,
                       JsonObject *info,
                       void *opaque)
{
    virshTraceSessions *s = opaque;
    unsigned i;

    for (i = 0; i < answer_members(info, ANSWER_SESSIONS); i++) {
        JsonObject *one = answer_member(info, ANSWER_SESSIONS, i);

        if (!one)
            continue;

        s->active += !answer_has_ended(one);
        if (s->json)
            continue;
        if (s->session) {
            if (i)
                vshPrint(s->ctl, "\n");
            session_facts(one, virshTracePrintFact, s->ctl);
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
