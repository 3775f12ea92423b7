"""IAM: roles and what they may do."""

import json

from lab.aws.double.kind import Api, delete, found, tag_list, tag_map
from lab.aws.double.wire import Properties


class Role:
    """A role."""

    def create(self, api: Api, given: Properties) -> str:
        """Creates it."""
        more = {"Path": given["path"]} if "path" in given else {}
        more |= {"Description": given["description"]} if "description" in given else {}
        api("iam").create_role(
            RoleName=given["name"],
            AssumeRolePolicyDocument=given["assumeRolePolicy"],
            Tags=tag_list(given),
            **more,
        )
        return str(given["name"])

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it. A trust policy that says the same in other words is the same."""
        answer = found(api("iam").get_role, RoleName=identity)
        if answer is None:
            return None
        role = answer["Role"]
        same = role["AssumeRolePolicyDocument"] == json.loads(state.get("assumeRolePolicy", "{}"))
        trust = state["assumeRolePolicy"] if same else json.dumps(role["AssumeRolePolicyDocument"])
        outputs = {"arn": role["Arn"], "uniqueId": role["RoleId"], "name": identity}
        return {**outputs, "assumeRolePolicy": trust, "tags": tag_map(role.get("Tags"))}

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Changes trust policy and tags."""
        if old.get("assumeRolePolicy") != new.get("assumeRolePolicy"):
            api("iam").update_assume_role_policy(RoleName=identity, PolicyDocument=new["assumeRolePolicy"])
        if stale := sorted(old.get("tags", {}).keys() - new.get("tags", {}).keys()):
            api("iam").untag_role(RoleName=identity, TagKeys=stale)
        if new.get("tags", {}) != old.get("tags", {}):
            api("iam").tag_role(RoleName=identity, Tags=tag_list(new))

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it."""
        delete(api("iam").delete_role, RoleName=identity)


class RolePolicy:
    """A policy inside a role."""

    def create(self, api: Api, given: Properties) -> str:
        """Creates it."""
        api("iam").put_role_policy(RoleName=given["role"], PolicyName=given["name"], PolicyDocument=given["policy"])
        return f"{given['role']}:{given['name']}"

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it."""
        role, _, name = identity.partition(":")
        answer = found(api("iam").get_role_policy, RoleName=role, PolicyName=name)
        if answer is None:
            return None
        same = answer["PolicyDocument"] == json.loads(state.get("policy", "{}"))
        policy = state["policy"] if same else json.dumps(answer["PolicyDocument"])
        return {"role": role, "name": name, "policy": policy}

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Writes it anew."""
        self.create(api, new)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it."""
        role, _, name = identity.partition(":")
        delete(api("iam").delete_role_policy, RoleName=role, PolicyName=name)


class RolePolicyAttachment:
    """A managed policy of a role."""

    def create(self, api: Api, given: Properties) -> str:
        """Attaches it."""
        api("iam").attach_role_policy(RoleName=given["role"], PolicyArn=given["policyArn"])
        return f"{given['role']}/{given['policyArn']}"

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads whether it is attached."""
        role, _, policy = identity.partition("/")
        answer = found(api("iam").list_attached_role_policies, RoleName=role)
        attached = {each["PolicyArn"] for each in (answer or {}).get("AttachedPolicies", ())}
        return {"role": role, "policyArn": policy} if policy in attached else None

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Nothing of it changes in place."""

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Detaches it."""
        role, _, policy = identity.partition("/")
        delete(api("iam").detach_role_policy, RoleName=role, PolicyArn=policy)
