/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control connection of a guest's device: see guest-link.h
 */

#include "service/guest-link.h"

static bool reaches(const struct guest_link *link, struct guest_client client)
{
    return link->control && client.connection == link->connections &&
           client.id >= 0;
}

void guest_link_reply(struct guest_link *link, struct guest_client client,
                      JsonObject *result)
{
    if (reaches(link, client)) {
        control_return(link->control, client.id, result);
    } else {
        json_object_unref(result);
    }
}

void guest_link_refuse(struct guest_link *link, struct guest_client client,
                       const char *why)
{
    if (reaches(link, client)) {
        control_fail(link->control, client.id, why);
    }
}
