/*
 * virsh-trace-session.c: The sessions of a domain, and the user's own
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace-session.h"
#include "virsh-trace-agent.h"
#include "virsh-trace-text.h"

#include "client/answer.h"

/* Those that a terminal shows as they are, to complete a command with */
char **
virshTraceActiveSessions(virDomainPtr dom)
{
    const struct service_client client = virshTraceClient(dom);
    g_autoptr(JsonObject) info = service_client_status(&client, NULL, NULL);
    char **names;
    size_t used = 0;
    size_t i;

    if (!info)
        return NULL;

    names = answer_active(info, NULL);
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
    const struct service_client client = virshTraceClient(dom);
    g_autoptr(GError) error = NULL;
    const char *session = NULL;
    char *name;

    if (vshCommandOptString(ctl, cmd, "session", &session) < 0)
        return NULL;

    if (!(name = service_client_choose(&client, session, &error)))
        virshTraceReport(ctl, virDomainGetName(dom), error);

    return name;
}
