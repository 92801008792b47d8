/*
 * virsh-trace-session.c: The sessions of a domain, and the user's own
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace-session.h"
#include "virsh-trace-agent.h"
#include "virsh-trace-answer.h"
#include "virsh-trace-text.h"

/* Users of different hosts are different owners. */
char *
virshTraceOwner(void)
{
    return g_strdup_printf("%s@%s", g_get_user_name(), g_get_host_name());
}

/* The names of sessions that have not ended, of @owner; of all if that is
 * NULL */
static char **
virshTraceSessionNames(virJSONValue *info,
                       const char *owner)
{
    virJSONValue *sessions;
    size_t n = virshTraceCount(info, "sessions", &sessions);
    char **names = g_new0(char *, n + 1);
    size_t used = 0;
    size_t i;

    for (i = 0; i < n; i++) {
        virJSONValue *one = virJSONValueArrayGet(sessions, i);
        const char *name = virJSONValueObjectGetString(one, "session");

        if (name && !virshTraceHasEnded(one) &&
            (!owner ||
             STREQ_NULLABLE(virJSONValueObjectGetString(one, "owner"), owner)))
            names[used++] = g_strdup(name);
    }

    return names;
}

/* Those that a terminal shows as they are, to complete a command with */
char **
virshTraceActiveSessions(vshControl *ctl,
                         virDomainPtr dom)
{
    g_autoptr(virJSONValue) info = NULL;
    g_auto(virshTraceError) err = { 0 };
    char **names;
    size_t used = 0;
    size_t i;

    if (!(info = virshTraceAsk(ctl, dom, &err, "s:do", "status", NULL)))
        return NULL;

    names = virshTraceSessionNames(info, NULL);
    for (i = 0; names[i]; i++) {
        g_autofree char *quoted = virshTraceQuote(names[i]);

        if (STREQ(quoted, names[i]))
            names[used++] = names[i];
        else
            g_free(names[i]);
    }
    names[used] = NULL;
    return names;
}

/**
 * virshTraceGetSession:
 *
 * Get the session that a command is for: the one that is named, or the only one
 * of this user.
 *
 * Returns its name, or NULL with an error reported.
 */
char *
virshTraceGetSession(vshControl *ctl,
                     virDomainPtr dom,
                     const vshCmd *cmd)
{
    g_autoptr(virJSONValue) info = NULL;
    g_autofree char *owner = virshTraceOwner();
    g_auto(GStrv) mine = NULL;
    g_auto(GStrv) all = NULL;
    const char *session = NULL;
    const char *domain = virDomainGetName(dom);

    if (vshCommandOptString(ctl, cmd, "session", &session) < 0)
        return NULL;

    if (session)
        return g_strdup(session);

    if (!(info = virshTraceAsk(ctl, dom, NULL, "s:do", "status", NULL)))
        return NULL;

    mine = virshTraceSessionNames(info, owner);
    all = virshTraceSessionNames(info, NULL);

    if (g_strv_length(mine) == 1)
        return g_strdup(mine[0]);

    if (*mine) {
        virshTraceComplain(ctl,
                           _("domain '%1$s' has several sessions of yours; name one with --session"),
                           domain);
    } else if (*all) {
        virshTraceComplain(ctl,
                           _("domain '%1$s' has sessions of other users only; name one with --session"),
                           domain);
    } else {
        virshTraceComplain(ctl, _("domain '%1$s' is not being traced"), domain);
    }

    return NULL;
}
